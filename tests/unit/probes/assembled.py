# SPDX-License-Identifier: Apache-2.0
"""Small functions in assembly, made into a shared library, and planned.

Sites are named by labels in the text: `plan("f")` says which labels were chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.fixtures import build

from ssllatency.abi import Convention
from ssllatency.code.flow import Code, Graph
from ssllatency.code.flow import build as build_graph
from ssllatency.code.machine import BASELINE, Emulation
from ssllatency.code.x86.machine import X86
from ssllatency.elf.image import Image
from ssllatency.openssl.tails import Tails
from ssllatency.probes.catalogue import Operation
from ssllatency.probes.plan import OperationPlan, Role
from ssllatency.probes.sites.operation import Planner


def function(name: str, body: str, *, binding: str = ".globl") -> str:
    """A function with its symbol, its size and its unwind table entry."""
    head = f"{binding} {name}\n.type {name}, @function\n{name}:\n.cfi_startproc\n"
    return f".p2align 4\n{head}{body}\n.cfi_endproc\n.size {name}, .-{name}\n"


@dataclass(frozen=True)
class Assembled:
    """A library made of assembly text."""

    path: Path

    @cached_property
    def image(self) -> Image:
        return Image.open(self.path)

    @cached_property
    def symbols(self) -> dict[str, int]:
        return {name: symbol.address for name, symbol in build.symbols(self.path).items()}

    def label(self, address: int) -> str:
        """The label at an address; labels of sites are not names of functions."""
        return next(name for name, at in self.symbols.items() if at == address and name.startswith("at_"))

    def planner(
        self, *, return_probes: bool = True, prefer: bool = False, emulation: Emulation = BASELINE, branch_exits: bool = True
    ) -> Planner:
        machine, tails = X86(), Tails(self.image)
        code = Code(self.image, machine)
        return Planner(self.image, machine, code, tails, emulation, return_probes, prefer, branch_exits)

    def graph(self, name: str = "f") -> Graph:
        planner = self.planner()
        found = self.image.function(name)
        assert found is not None
        return build_graph(planner.code, found.address, found.size, planner.tails.targets)

    def plan(
        self,
        name: str = "f",
        *,
        ssl_argument: bool = False,
        skip_null: int | None = None,
        length_argument: int | None = None,
        async_job: bool = True,
        convention: Convention = Convention.ONE,
        return_probes: bool = True,
        prefer: bool = False,
        emulation: Emulation = BASELINE,
        branch_exits: bool = True,
    ) -> OperationPlan:
        """The plan of the function `name` as an operation with these properties."""
        operation = Operation(
            name,
            "libcrypto",
            convention,
            (name,),
            ssl_argument=ssl_argument,
            skip_null=skip_null,
            length_argument=length_argument,
            async_job=async_job,
        )
        found = self.image.function(name)
        assert found is not None
        planner = self.planner(return_probes=return_probes, prefer=prefer, emulation=emulation, branch_exits=branch_exits)
        return planner.plan(operation, found)

    def labels(self, plan: OperationPlan, *roles: Role) -> list[str]:
        """The labels of the plan's sites in these roles."""
        return sorted(self.label(probe.address) for probe in plan.probes if probe.role in roles)

    def entry(self, plan: OperationPlan) -> str:
        return self.labels(plan, Role.ENTRY)[0]

    def exits(self, plan: OperationPlan) -> list[str]:
        return self.labels(plan, Role.EXIT)


def assemble(folder: Path, text: str, name: str = "code", *flags: str) -> Assembled:
    """The library that the assembly `text` makes; functions that it doesn't define are another library's."""
    source, path = folder / f"{name}.S", folder / f"lib{name}.so"
    source.write_text(f'.text\n{text}\n.section .note.GNU-stack,"",@progbits\n')
    build.run("gcc", "-shared", "-nostdlib", "-Wl,--build-id=sha1", "-Wl,-z,lazy", *flags, "-o", path, source)
    return Assembled(path)
