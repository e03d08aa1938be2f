# SPDX-License-Identifier: Apache-2.0
"""Small functions in machine code, each around one instruction of a kind that the planner may choose as a site.

Each takes a number in the first argument's register and returns one. They are given as code so that a machine without a
compiler can run them: x86-64's as bytes, aarch64's as words. A name begins with the mnemonic of the instruction at `site`.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass


@dataclass(frozen=True)
class Snippet:
    """A function; the instruction in question lies `site` bytes from its beginning."""

    name: str
    site: int
    text: str

    @property
    def code(self) -> bytes:
        """Its bytes."""
        numbers = [int(word, 16) for word in self.text.split()]
        words = len(self.text.split()[0]) == 8
        return struct.pack(f"<{len(numbers)}{'I' if words else 'B'}", *numbers)


AARCH64 = (
    Snippet("nop", 0, "d503201f 91000400 d65f03c0"),
    Snippet("b", 0, "14000002 d2800000 91000400 d65f03c0"),
    Snippet("b backwards", 12, "14000003 91000400 d65f03c0 17fffffe"),
    Snippet("bl", 4, "a9bf7bfd 94000004 91000800 a8c17bfd d65f03c0 91000400 d65f03c0"),
    Snippet("blr", 8, "a9bf7bfd 100000a9 d63f0120 91000800 a8c17bfd d65f03c0 91000400 d65f03c0"),
    Snippet("br", 4, "10000069 d61f0120 d2800000 91000400 d65f03c0"),
    Snippet("ret", 4, "91000400 d65f03c0"),
    Snippet("ret of another register", 8, "aa1e03e9 d280001e d65f0120"),
    Snippet("b.eq", 8, "f1000c1f d28000e0 54000040 d2800120 d65f03c0"),
    Snippet("b.ne", 8, "f1000c1f d28000e0 54000041 d2800120 d65f03c0"),
    Snippet("b.hs", 8, "f1000c1f d28000e0 54000042 d2800120 d65f03c0"),
    Snippet("b.lo", 8, "f1000c1f d28000e0 54000043 d2800120 d65f03c0"),
    Snippet("b.mi", 8, "f1000c1f d28000e0 54000044 d2800120 d65f03c0"),
    Snippet("b.pl", 8, "f1000c1f d28000e0 54000045 d2800120 d65f03c0"),
    Snippet("b.vs", 8, "f1000c1f d28000e0 54000046 d2800120 d65f03c0"),
    Snippet("b.vc", 8, "f1000c1f d28000e0 54000047 d2800120 d65f03c0"),
    Snippet("b.hi", 8, "f1000c1f d28000e0 54000048 d2800120 d65f03c0"),
    Snippet("b.ls", 8, "f1000c1f d28000e0 54000049 d2800120 d65f03c0"),
    Snippet("b.ge", 8, "f1000c1f d28000e0 5400004a d2800120 d65f03c0"),
    Snippet("b.lt", 8, "f1000c1f d28000e0 5400004b d2800120 d65f03c0"),
    Snippet("b.gt", 8, "f1000c1f d28000e0 5400004c d2800120 d65f03c0"),
    Snippet("b.le", 8, "f1000c1f d28000e0 5400004d d2800120 d65f03c0"),
    Snippet("cbz", 8, "aa0003e1 d28000e0 b4000041 d2800120 d65f03c0"),
    Snippet("cbz of 32 bits", 8, "aa0003e1 d28000e0 34000041 d2800120 d65f03c0"),
    Snippet("cbnz", 8, "aa0003e1 d28000e0 b5000041 d2800120 d65f03c0"),
    Snippet("cbnz of 32 bits", 8, "aa0003e1 d28000e0 35000041 d2800120 d65f03c0"),
    Snippet("tbz", 8, "aa0003e1 d28000e0 36100041 d2800120 d65f03c0"),
    Snippet("tbz of a high bit", 8, "aa0003e1 d28000e0 b6f80041 d2800120 d65f03c0"),
    Snippet("tbnz", 8, "aa0003e1 d28000e0 37100041 d2800120 d65f03c0"),
    Snippet("tbnz of a high bit", 8, "aa0003e1 d28000e0 b7f80041 d2800120 d65f03c0"),
    Snippet("adr", 0, "10000081 10000062 cb020021 8b010000 d65f03c0"),
    Snippet("adr backwards", 0, "10000001 10ffffe2 cb020021 8b010000 d65f03c0"),
    Snippet("adrp", 0, "90000001 90000002 cb020021 8b010000 d65f03c0"),
    Snippet("ldr of a literal", 0, "58000040 d65f03c0 55667788 11223344"),
    Snippet("ldr of a literal of 32 bits", 0, "18000040 d65f03c0 89abcdef 00000000"),
    Snippet("ldrsw of a literal", 0, "98000040 d65f03c0 89abcdef 00000000"),
    Snippet("add", 0, "91001400 d65f03c0"),
    Snippet("mov", 0, "aa0003e1 8b010020 d65f03c0"),
    Snippet("csel", 8, "f1000c1f d2800121 9a818000 d65f03c0"),
    Snippet("stp", 0, "a9be7bfd 91000400 a8c27bfd d65f03c0"),
    Snippet("ldp", 8, "a9be7bfd 91000400 a8c27bfd d65f03c0"),
    Snippet("ldr", 8, "f81f0fe0 d2800000 f84107e0 d65f03c0"),
    Snippet("bti c", 0, "d503245f 91000400 d65f03c0"),
    Snippet("paciasp", 0, "d503233f a9bf7bfd 91000400 a8c17bfd d50323bf d65f03c0"),
    Snippet("ret of a signed call", 20, "d503233f a9bf7bfd 91000400 a8c17bfd d50323bf d65f03c0"),
)
X86_64 = (
    Snippet("nop", 0, "90 48 8d 47 01 c3"),
    Snippet("nop with a prefix", 0, "66 90 48 8d 47 01 c3"),
    Snippet("nop of 4 bytes", 0, "0f 1f 00 48 8d 47 01 c3"),
    Snippet("nop of 5 bytes", 0, "0f 1f 04 00 48 8d 47 01 c3"),
    Snippet("endbr64", 0, "f3 0f 1e fa 48 8d 47 01 c3"),
    Snippet("push", 0, "53 48 8d 47 01 5b c3"),
    Snippet("push of a new register", 0, "41 54 48 8d 47 01 41 5c c3"),
    Snippet("call", 0, "e8 05 00 00 00 48 83 c0 02 c3 48 8d 47 01 c3"),
    Snippet("jmp", 0, "eb 07 48 c7 c7 00 00 00 00 48 8d 47 01 c3"),
    Snippet("jmp of 5 bytes", 0, "e9 07 00 00 00 48 c7 c7 00 00 00 00 48 8d 47 01 c3"),
    Snippet("jo", 9, "48 83 ff 03 b8 07 00 00 00 70 05 b8 09 00 00 00 c3"),
    Snippet("jno", 9, "48 83 ff 03 b8 07 00 00 00 71 05 b8 09 00 00 00 c3"),
    Snippet("jb", 9, "48 83 ff 03 b8 07 00 00 00 72 05 b8 09 00 00 00 c3"),
    Snippet("jae", 9, "48 83 ff 03 b8 07 00 00 00 73 05 b8 09 00 00 00 c3"),
    Snippet("je", 9, "48 83 ff 03 b8 07 00 00 00 74 05 b8 09 00 00 00 c3"),
    Snippet("jne", 9, "48 83 ff 03 b8 07 00 00 00 75 05 b8 09 00 00 00 c3"),
    Snippet("jbe", 9, "48 83 ff 03 b8 07 00 00 00 76 05 b8 09 00 00 00 c3"),
    Snippet("ja", 9, "48 83 ff 03 b8 07 00 00 00 77 05 b8 09 00 00 00 c3"),
    Snippet("js", 9, "48 83 ff 03 b8 07 00 00 00 78 05 b8 09 00 00 00 c3"),
    Snippet("jns", 9, "48 83 ff 03 b8 07 00 00 00 79 05 b8 09 00 00 00 c3"),
    Snippet("jp", 9, "48 83 ff 03 b8 07 00 00 00 7a 05 b8 09 00 00 00 c3"),
    Snippet("jnp", 9, "48 83 ff 03 b8 07 00 00 00 7b 05 b8 09 00 00 00 c3"),
    Snippet("jl", 9, "48 83 ff 03 b8 07 00 00 00 7c 05 b8 09 00 00 00 c3"),
    Snippet("jge", 9, "48 83 ff 03 b8 07 00 00 00 7d 05 b8 09 00 00 00 c3"),
    Snippet("jle", 9, "48 83 ff 03 b8 07 00 00 00 7e 05 b8 09 00 00 00 c3"),
    Snippet("jg", 9, "48 83 ff 03 b8 07 00 00 00 7f 05 b8 09 00 00 00 c3"),
    Snippet("je of 6 bytes", 9, "48 83 ff 03 b8 07 00 00 00 0f 84 05 00 00 00 b8 09 00 00 00 c3"),
    Snippet("ret", 4, "48 8d 47 01 c3"),
    Snippet("sub", 0, "48 83 ec 18 48 8d 47 01 48 83 c4 18 c3"),
    Snippet("mov", 0, "48 89 f8 c3"),
    Snippet("test", 5, "b8 07 00 00 00 48 85 ff 75 05 b8 09 00 00 00 c3"),
    Snippet("lea", 0, "48 8d 47 01 c3"),
)
OWN = {"aarch64": AARCH64, "x86_64": X86_64}[os.uname().machine]
