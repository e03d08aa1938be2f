# SPDX-License-Identifier: Apache-2.0
"""The TLS implementations that are linked into an image, with or without symbols for their functions, and the version of the
one that can be traced. They are recognised by their marks in the file."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from ssllatency.data_class import dataclass
from ssllatency.stacks.registry import STACKS, UNTRACED, stack_of

if TYPE_CHECKING:
    from ssllatency.elf.image import Image
    from ssllatency.stacks.base import Stack

_LONGEST = 128
_MARKS = {name: mark for implementation in (*STACKS, *UNTRACED) for name, mark in implementation.marks.items()}


@dataclass(frozen=True)
class Inside:
    """`implementations`: (name, version) of those that aren't traced, the version "" where unknown. `traceable`: the same of
    the one that is where its functions' names are known; two empty texts for none."""

    implementations: tuple[tuple[str, str], ...] = ()
    traceable: tuple[str, str] = ("", "")


@dataclass(frozen=True)
class Version:
    """The name that a library gives itself. Of `text`, as "OpenSSL 3.0.19 27 Jan 2026", `name` is "OpenSSL" and `release`
    "3.0.19"; both texts are empty where they are unknown."""

    text: str
    name: str
    release: str

    @classmethod
    def of(cls, traceable: tuple[str, str]) -> Version:
        """Return the version of an implementation as its marks show it."""
        return cls(" ".join(traceable).rstrip(), *traceable)


def tls_inside(image: Image) -> Inside:
    """The implementations that the image's bytes show, read once from end to end. ElfError where the file is cut short."""
    versions = _versions(image)
    seen = _marked(image, versions)
    stack = _traceable(image, seen)
    beside = (other for other in seen if other is not stack and not (other.has_symbols and stack and stack.has_symbols))
    untraced = (told for each in UNTRACED if (told := each.identify(versions)) and each.is_inside(image))
    return Inside((*untraced, *(seen[other] for other in beside)), seen[stack] if stack else ("", ""))


def stack_marked(name: str) -> Stack:
    """The stack that tls_inside() has recognised by this name."""
    return next(stack for stack in STACKS if name in stack.marks)


def _versions(image: Image) -> dict[str, str]:
    """The marks that the image has, each with its version."""
    versions: dict[str, str] = {}
    for _, piece in image.pieces(_LONGEST):
        for name, mark in _MARKS.items():
            if not versions.get(name) and (version := mark.first(piece)) is not None:
                versions[name] = version
    return versions


def _marked(image: Image, versions: dict[str, str]) -> dict[Stack, tuple[str, str]]:
    """The stacks that have these marks, each with its name and version."""
    return {stack: seen for stack in STACKS if (seen := stack.identify(versions)) and stack.is_inside(image)}


def _traceable(image: Image, seen: Collection[Stack]) -> Stack | None:
    """Of several stacks in one file the one whose functions are found, as in a stripped Go program with an OpenSSL of its own;
    else the first. None of none."""
    return stack_of(image) if len(seen) > 1 and stack_of(image) in seen else next(iter(seen), None)


def version_of(image: Image) -> Version:
    """Return what the library in the image calls itself. BoringSSL has no versions, and where nothing asks for AWS-LC's it
    isn't linked: then the file's marks tell which it is."""
    stack = stack_of(image)
    text = stack.version(image)
    if text:
        return Version(text, *stack.name_and_release(text))
    seen = _marked(image, _versions(image))
    marked = _traceable(image, seen)
    return Version.of(seen[marked]) if marked and not marked.states_version else Version("", stack.title, "")


def library_version(image: Image) -> str:
    """The text of version_of(), as "OpenSSL 3.0.19 27 Jan 2026" or "BoringSSL"; "" if unknown."""
    return version_of(image).text
