# SPDX-License-Identifier: Apache-2.0
"""A limit to the system calls that this process may make from now on: a seccomp filter, made of rules. There is no way back.

It is a program of classic BPF that looks at struct seccomp_data: the call's number, the architecture by whose numbers it was
made, the lower halves of its arguments (linux/seccomp.h).
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable
from enum import IntEnum

from ssllatency.data_class import dataclass

Instruction = tuple[int, int, int, int]  # code, how many to skip if true, and if false, operand

_PR_SET_SECCOMP, _MODE_FILTER, _PR_SET_NO_NEW_PRIVS = 22, 2, 38
# Load a word of struct seccomp_data; jump if it is equal, at least as large, or has one of the bits; return.
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # where these are in it
_X32 = 0x40000000  # in the numbers of x86-64's third way to make calls


class Answer(IntEnum):
    """The kernel's answer to a call: SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO with EPERM or ENOSYS, SECCOMP_RET_KILL_PROCESS."""

    ALLOWED = 0x7FFF0000
    REFUSED = 0x00050000 | errno.EPERM
    LACKING = 0x00050000 | errno.ENOSYS
    END = 0x80000000


@dataclass(frozen=True)
class CallRule:
    """The answer to a call by its number. With `argument` it is for calls whose argument of this number, from 0, is `equal`, or
    has a bit of `bits`; the others get `otherwise`."""

    number: int
    answer: Answer
    argument: int | None = None
    equal: int = 0
    bits: int = 0
    otherwise: Answer = Answer.REFUSED

    def instructions(self) -> list[Instruction]:
        """Those that answer this call, and go on behind them for another."""
        if self.argument is None:
            return [(_IF_EQUAL, 0, 1, self.number), _answer(self.answer)]
        test = (_IF_SET, 0, 1, self.bits) if self.bits else (_IF_EQUAL, 0, 1, self.equal)
        load = (_LOAD, 0, 0, _ARGUMENTS + 8 * self.argument)
        return [(_IF_EQUAL, 0, 4, self.number), load, test, _answer(self.answer), _answer(self.otherwise)]


def program(
    rules: Iterable[CallRule], others: Answer, architecture: int, foreign: Answer = Answer.REFUSED
) -> list[Instruction]:
    """The filter. `others`: the answer to calls that no rule names; `foreign`: to those by the numbers of an architecture that
    isn't `architecture` (AUDIT_ARCH_*). Numbers of x32 are refused."""
    made = [(_LOAD, 0, 0, _ARCHITECTURE), (_IF_EQUAL, 1, 0, architecture), _answer(foreign)]
    made += [(_LOAD, 0, 0, _NUMBER), (_IF_AT_LEAST, 0, 1, _X32), _answer(Answer.REFUSED)]
    for rule in rules:
        made += rule.instructions()
    return [*made, _answer(others)]


def limit_to(filter_: list[Instruction]) -> None:
    """Sets the filter, and takes the way to new privileges. OSError where the kernel has no filters."""
    library = ctypes.CDLL(None, use_errno=True)
    code = b"".join(struct.pack("<HBBI", *instruction) for instruction in filter_)
    buffer = ctypes.create_string_buffer(code, len(code))
    head = struct.pack("<H6xQ", len(filter_), ctypes.addressof(buffer))
    for option, *values in ((_PR_SET_NO_NEW_PRIVS, 1, 0), (_PR_SET_SECCOMP, _MODE_FILTER, head)):
        if library.prctl(option, *values, 0, 0):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _answer(answer: Answer) -> Instruction:
    return _RETURN, 0, 0, answer
