# SPDX-License-Identifier: Apache-2.0
"""Contents of a file beside what is probed: which libraries, of which version, other TLS, and why it can't be traced."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ssllatency.facts import NOTHING, FileFacts
from ssllatency.fields import Field

if TYPE_CHECKING:
    from ssllatency.elf.image import Image
    from ssllatency.stacks.implementations import Inside, Version

_MOST_PARTS, _LONGEST_TEXT = 64, 4096


def file_facts(image: Image, machine: str = "") -> FileFacts:
    """The contents of an image; nothing in one of another processor than `machine`, if that is given. ElfError where it is cut
    short. The decoder is brought in when this is called."""
    from ssllatency.stacks.file_names import has_library_name
    from ssllatency.stacks.implementations import Inside, Version, stack_marked, tls_inside, version_of
    from ssllatency.stacks.registry import called, libraries_in, stack_of

    if machine and image.machine != machine:
        return NOTHING
    libraries = libraries_in(image)
    inside = Inside() if has_library_name(image.label) else tls_inside(image)
    if not any(inside.traceable):
        return _facts(image, libraries, inside, version_of(image) if libraries else None)
    if called(libraries) and image.unnamed:
        facts = _facts(image, libraries, inside, version_of(image))
        stack = stack_of(image)
        return replace(facts, unnamed=True, unfound=(*stack.unfound(image), *stack.untold(image)))
    if called(libraries):
        return replace(_facts(image, libraries, inside, version_of(image)), by_debug_file=bool(image.debug_file))
    by_marks, stated = Version.of(inside.traceable), version_of(image)
    facts = _facts(image, libraries, inside, stated if stated.text else by_marks)
    if why := stack_marked(inside.traceable[0]).obstacle(image):
        return replace(facts, obstacle=why)
    return replace(facts, obstacle=_no_names(image, by_marks.text), by_debug_file=image.has_unwind_tables)


def _facts(image: Image, libraries: tuple[str, ...], inside: Inside, version: Version | None) -> FileFacts:
    facts = FileFacts(libraries, build_id=image.build_id, others=inside.implementations)
    return replace(facts, version=version.text, name=version.name, release=version.release) if version else facts


def _no_names(image: Image, implementation: str) -> str:
    """Return why it can't be traced, and what would help. Without unwind tables, as in bun, a debug file wouldn't."""
    name, confirms = image.label.rpartition("/")[2], image.has_unwind_tables
    place = next(iter(image.debug_places()), "") if confirms else ""
    debug_file = f"its debug file as {place}, or " if place else ""
    shows = "(stripped)" if confirms else "(stripped), nor where these begin (no unwind tables)"
    return (
        f"{implementation} is linked into {name} and shows no names of its functions {shows}; what would help is"
        f" {debug_file}a build of {name} that has its symbol table"
    )


def read_facts(facts: Field) -> FileFacts:
    """The facts whose fields were written down, checked in full. Else FieldError."""
    record = facts.record(FileFacts)
    return FileFacts(
        libraries=tuple(library.text(_LONGEST_TEXT) for library in record["libraries"].items(_MOST_PARTS)),
        version=record["version"].text(_LONGEST_TEXT),
        build_id=record["build_id"].text(_LONGEST_TEXT),
        others=tuple(_other(other) for other in record["others"].items(_MOST_PARTS)),
        obstacle=record["obstacle"].text(_LONGEST_TEXT),
        by_debug_file=record["by_debug_file"].flag(),
        name=record["name"].text(_LONGEST_TEXT),
        release=record["release"].text(_LONGEST_TEXT),
        unnamed=record["unnamed"].flag(),
        unfound=tuple(name.text(_LONGEST_TEXT) for name in record["unfound"].items(_MOST_PARTS)),
    )


def _other(other: Field) -> tuple[str, str]:
    texts = [text.text(_LONGEST_TEXT) for text in other.items(2)]
    return (texts[0], texts[1]) if len(texts) == 2 else other.refuse("a name and a version")
