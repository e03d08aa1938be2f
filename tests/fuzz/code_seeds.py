# SPDX-License-Identifier: Apache-2.0
"""Images whose functions are for the fuzzer to write, and instructions to begin with."""

from __future__ import annotations

from pathlib import Path

from tests.fixtures import assembled, assembled_aarch64, build
from tests.fuzz.code_invariants import OPERATIONS, ROOM, Template

_RET, _RET_AARCH64 = b"\xc3", bytes.fromhex("c0035fd6")
# Calls lead to the function itself: its address is known whatever comes of the rest.
_BODIES = (
    "push %rbx\nmov %rdi,%rbx\ncall f\npop %rbx\nret\n",
    "endbr64\npush %rbx\ntest %rdi,%rdi\nje 1f\ncall f\ntest %eax,%eax\njle 1f\nmov $1,%eax\npop %rbx\nret\n"
    "1: xor %eax,%eax\npop %rbx\nret\n",
    "push %rbp\nmov %rsp,%rbp\nsub $32,%rsp\nmov %fs:40,%rax\nmov %rax,-8(%rbp)\ncall f\nmov -8(%rbp),%rdx\nsub %fs:40,%rdx\n"
    "jne 1f\nleave\nret\n1: call f\nud2\n",
    "cmp $3,%edi\nja 9f\nlea 1f(%rip),%rdx\nmovslq (%rdx,%rdi,4),%rax\nadd %rdx,%rax\njmp *%rax\n9: xor %eax,%eax\nret\n"
    "1: .long 9b-1b, 9b-1b, 9b-1b, 9b-1b\n",
    "mov 8(%rdi),%rax\ntest %rax,%rax\nje 1f\njmp *16(%rax)\n1: mov $-1,%eax\nret\n",
    "push %r12\nxor %r12d,%r12d\n1: call f\nadd %eax,%r12d\ncmp $9,%r12d\njb 1b\nmov %r12d,%eax\npop %r12\nret\n",
    "vmovdqu (%rdi),%ymm0\nvpaddd %ymm0,%ymm0,%ymm1\nvzeroupper\nnopw 0(%rax,%rax)\nlock incl (%rdi)\nrep movsb\nret\n",
)
_BODIES_AARCH64 = (
    "stp x29, x30, [sp, #-16]!\nmov x29, sp\nbl f\nldp x29, x30, [sp], #16\nret\n",
    "paciasp\nstp x29, x30, [sp, #-32]!\nmov x29, sp\nstr x19, [sp, #16]\ncbz x0, 1f\nbl f\ncmp w0, #0\nb.le 1f\nmov w0, #1\n"
    "2: ldr x19, [sp, #16]\nldp x29, x30, [sp], #32\nautiasp\nret\n1: mov w0, #0\nb 2b\n",
    "bti c\nldr x1, [x0, #8]\ncbz x1, 1f\nldr x2, [x1, #16]\nbr x2\n1: mov w0, #-1\nret\n",
    "sub sp, sp, #48\nstp x29, x30, [sp, #32]\nadd x29, sp, #32\ntbnz w0, #3, 1f\nbl f\n1: ldp x29, x30, [sp, #32]\n"
    "add sp, sp, #48\nret\n",
    "cmp w0, #3\nb.hi 9f\nadr x1, 1f\nldrsw x2, [x1, w0, uxtw #2]\nadd x1, x1, x2\nbr x1\n9: mov w0, #0\nret\n"
    "1: .word 9b-1b, 9b-1b, 9b-1b, 9b-1b\n",
)


def x86(folder: Path) -> tuple[Template, list[bytes]]:
    """For the machine's own assembler."""
    text = "".join(assembled.function(name, f".fill {ROOM}, 1, 0xc3\n") for name in OPERATIONS)
    made = build.stripped(assembled.assemble(folder, text, "template").path, "template.so")
    data = build.without_section_headers(made, "template-headless.so").read_bytes()
    bodies = []
    for number, body in enumerate(_BODIES):
        library = assembled.assemble(folder, assembled.function("f", body), f"body{number}")
        symbol = build.symbols(library.path)["f"]
        bodies.append(library.image.code(symbol.address, symbol.size))
    return Template(data, _RET), bodies


def aarch64(folder: Path) -> tuple[Template, list[bytes]]:
    """By clang, on any machine."""
    text = "".join(assembled_aarch64.function(name, f".fill {ROOM // 4}, 4, 0xd65f03c0\n") for name in OPERATIONS)
    data = assembled_aarch64.assemble(folder, text).path.read_bytes()
    bodies = []
    for body in _BODIES_AARCH64:
        library = assembled_aarch64.assemble(folder, assembled_aarch64.function("f", body))
        function = library.image.own_function("f")
        assert function is not None
        bodies.append(library.image.code(function.address, function.size))
    return Template(data, _RET_AARCH64), bodies


MACHINES = {"x86-64": x86, "aarch64": aarch64}
