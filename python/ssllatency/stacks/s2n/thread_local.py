# SPDX-License-Identifier: Apache-2.0
"""The place of s2n_errno, a thread-local variable: in a program, a constant distance from the thread pointer, which the code of
s2n_errno_location shows. In a shared library it is somewhere else in each process, and its code calls the C library to find
it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ssllatency.code.decode import Line, lines
from ssllatency.elf.image import Image

_LONGEST = 64  # bytes of code
_FARTHEST = (1 << 16) - 1  # bytes: more than all thread-local variables take together
_WORD = 4
# Instructions around those that matter, which leave the result alone.
_ASIDE = re.compile(r"(?:endbr64|nop.*|bti.*|push .*|pop (?!rax).*|mov rbp, rsp|(?:sub|add) rsp, .*)")
_POINTER = {"x86-64": re.compile(r"mov (\w+), qword ptr fs:\[0\]"), "aarch64": re.compile(r"mrs (\w+), tpidr_el0")}
_ADDED = {
    "x86-64": re.compile(r"lea (\w+), \[(\w+) (?P<sign>[+-]) (?P<number>\w+)\]|(?P<sum>add|sub) (\w+), (?P<term>-?\w+)"),
    "aarch64": re.compile(r"add (\w+), (\w+), #(?P<number>\w+)(?P<pages>, lsl #12)?"),
}
_RESULT = {"x86-64": "rax", "aarch64": "x0"}


def errno_place(image: Image) -> int | None:
    """The distance of s2n_errno from the thread pointer, bytes: below it on x86-64, above on aarch64; None where the code
    doesn't show it."""
    function = image.function("s2n_errno_location")
    if function is None:
        return None
    code = image.code(function.address, min(function.size, _LONGEST))
    place = _returned(lines(code, function.address, image.machine), image.machine)
    distance = -place if place and image.machine == "x86-64" else place
    return distance if distance and 0 < distance <= _FARTHEST and distance % _WORD == 0 else None


def _returned(code: Iterable[Line], machine: str) -> int | None:
    """The distance that is added to the thread pointer and returned."""
    place: int | None = None
    for line in code:
        text = f"{line.mnemonic} {line.op_str}".rstrip()
        if text == "ret":
            return place
        if pointer := _POINTER[machine].fullmatch(text):
            if place is not None or pointer[1] != _RESULT[machine]:
                return None
            place = 0
        elif place is not None and (added := _added(text, machine)) is not None:
            place += added
        elif not _ASIDE.fullmatch(text):
            return None
    return None


def _added(text: str, machine: str) -> int | None:
    """The number that an instruction adds to the result."""
    match = _ADDED[machine].fullmatch(text)
    if match is None or {register for register in match.groups()[:2] if register} - {_RESULT[machine]}:
        return None
    if machine == "aarch64":
        return int(match["number"], 0) << (12 if match["pages"] else 0)
    if match["sum"]:
        return int(match["term"], 0) * (-1 if match["sum"] == "sub" else 1) if match[6] == _RESULT[machine] else None
    return int(match["number"], 0) * (-1 if match["sign"] == "-" else 1)
