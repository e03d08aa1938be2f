# SPDX-License-Identifier: Apache-2.0
"""Facts that the name of a file tells, before anybody looks inside: whether it is a library that is traced, or one of an
implementation that isn't."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cache

from ssllatency.stacks.by_name import ByName
from ssllatency.stacks.registry import LIBRARIES, STACKS, UNTRACED

_PATTERNS = tuple(pattern for library in LIBRARIES.values() for pattern in library.file_names)
_LOADED = tuple(library for library in LIBRARIES.values() if library.loaded_as)
LOADED_AS = tuple(library.loaded_as for library in _LOADED)
"""Beginnings of the names by which programs load the libraries that are traced: "libssl.so"."""
SONAMES = tuple(
    library.loaded_as + version
    for version in dict.fromkeys(version for library in _LOADED for version in library.loaded_versions)
    for library in _LOADED
    if version in library.loaded_versions
)
"""All of these names, the usual ones first."""


def has_library_name(path: str) -> bool:
    """Whether the file at `path` has the name of a library that is traced."""
    name = path.rpartition("/")[2]
    return _any((name,), _PATTERNS)


def is_usual(path: str) -> bool:
    """Whether it has the name by which programs load one."""
    return path.rpartition("/")[2].startswith(LOADED_AS)


def stack_called(path: str) -> str:
    """The title of the stack of which the file at `path` is, by the name that programs load it by, the library that they call;
    "" for none."""
    name = path.rpartition("/")[2]
    called = ((stack.title, library) for stack in STACKS for library in stack.libraries if library.called)
    return next((title for title, library in called if library.loaded_as and name.startswith(library.loaded_as)), "")


def untraced_in(paths: Iterable[str]) -> tuple[ByName, ...]:
    """The implementations that aren't traced and whose libraries are among these files of a process. A Java virtual machine
    counts as one: whether a program in it does TLS can't be determined from outside."""
    names = [path.rpartition("/")[2] for path in paths]
    by_name = (implementation for implementation in UNTRACED if isinstance(implementation, ByName))
    return tuple(each for each in by_name if _any(names, each.file_names) and not _any(names, each.unless))


def _any(names: Iterable[str], patterns: Iterable[str]) -> bool:
    return any(
        fnmatchcase(name, pattern) for pattern in patterns for name in names if name.startswith(_literal_beginning(pattern))
    )


@cache
def _literal_beginning(pattern: str) -> str:
    """The part before the first wildcard: few names have it, and only for those the pattern has to be compiled."""
    return pattern[: next((place for place, letter in enumerate(pattern) if letter in "*?["), len(pattern))]
