# SPDX-License-Identifier: Apache-2.0
"""Text that the kernel writes: /proc/PID/status, cgroup, mountinfo and the like, for whoever takes it apart.

In it stand names that their owners choose: of processes, of cgroups, of files. The kernel escapes a newline in them, and so a
newline alone ends a line. Python's text mode takes a carriage return for one as well, and splitlines() eight more characters:
with them a process that is called "\\rUid:" would write a line of its own.
"""

from __future__ import annotations

from pathlib import Path

ESCAPED = "backslashreplace"  # bytes that aren't UTF-8 appear as \xNN


def kernel_text(path: str | Path, errors: str = ESCAPED) -> str:
    """The text of such a file, no character of it changed. OSError where it can't be read."""
    return Path(path).read_bytes().decode(errors=errors)


def kernel_lines(path: str | Path) -> list[str]:
    """The lines of such a file, without what ends them. OSError where it can't be read."""
    return lines_in(kernel_text(path))


def lines_in(text: str) -> list[str]:
    """The lines of the text of such a file."""
    return text.removesuffix("\n").split("\n") if text else []


def kernel_fields(path: str | Path) -> dict[str, str]:
    """The values of a file whose lines are NAME: VALUE, without blanks around them; of several of a name the first. OSError
    where it can't be read."""
    fields: dict[str, str] = {}
    for line in kernel_lines(path):
        name, separator, value = line.partition(":")
        if separator:
            fields.setdefault(name, value.strip())
    return fields


def number_in(value: str) -> int | None:
    """The number that a value begins with; None where it doesn't begin with one."""
    words = value.split(None, 1)
    return int(words[0]) if words and words[0].isascii() and words[0].isdecimal() else None
