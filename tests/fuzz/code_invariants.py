# SPDX-License-Identifier: Apache-2.0
"""What must hold of the plan of one function, whatever its instructions: the code itself is what a fuzzer writes.

The function lies in an image made once, whose unwind tables and symbols know it. So all that is tried is decoded, followed and
planned: what invariants.py says of sites must hold of each, and the two decoders must agree on where instructions begin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from ssllatency.code.aarch64.machine import Aarch64
from ssllatency.code.flow import Code, Unplannable
from ssllatency.code.machine import BASELINE, Emulation, Machine
from ssllatency.code.x86.machine import X86
from ssllatency.elf.image import ElfError, Function, Image
from ssllatency.probes.catalogue import BY_NAME
from ssllatency.probes.evidence import CodeEvidence
from ssllatency.probes.plan import Role
from ssllatency.probes.settings import PlanSettings
from ssllatency.probes.sites.operation import Planner
from ssllatency.stacks.openssl.tables.tails import MethodTails
from tests.fuzz.invariants import check_sites, image_of

ROOM = 512  # bytes of the function that are the fuzzer's
OPERATIONS = ("SSL_do_handshake", "ECDSA_sign")  # one whose return may be probed, one that may run inside an ASYNC job
_EMULATIONS = (BASELINE, Emulation(multibyte_nops=True, optimised_nop5=True, calls=False))


@dataclass(frozen=True)
class Template:
    """An image with functions called as OPERATIONS, each of ROOM bytes, and what fills the rest of a shorter one."""

    data: bytes
    filling: bytes

    @cached_property
    def functions(self) -> dict[str, Function]:
        """The functions by the names of OPERATIONS."""
        image = image_of(self.data)
        found = {name: image.own_function(name) for name in OPERATIONS}
        return {name: function for name, function in found.items() if function}

    @cached_property
    def _offsets(self) -> list[int]:
        image = image_of(self.data)
        return [image.file_offset(function.address) for function in self.functions.values()]

    def filled(self, code: bytes) -> tuple[Image, bytes]:
        """The image whose functions have this code, and its bytes."""
        data, body = bytearray(self.data), code[:ROOM]
        body += (self.filling * ROOM)[: ROOM - len(body)]
        for at in self._offsets:
            data[at : at + ROOM] = body
        return image_of(bytes(data)), bytes(data)


def check_code(template: Template) -> Callable[[bytes], None]:
    """Of the plans of functions with any code."""

    def check(code: bytes) -> None:
        image, data = template.filled(code)
        machine: Machine = Aarch64() if image.machine == "aarch64" else X86()
        decoded, tails = Code(image, machine), MethodTails(image)
        for function in template.functions.values():
            for emulation in _EMULATIONS:
                planner = Planner(image, machine, decoded, tails, PlanSettings(emulation=emulation))
                _check_operation(planner, function, data)

    return check


def _check_operation(planner: Planner, function: Function, data: bytes) -> None:
    operation, evidence = BY_NAME[function.name], CodeEvidence(planner.image)
    try:
        plan = planner.plan(operation, function)
        evidence.add(plan.probes, (function.address, function.address + function.size))
    except (Unplannable, ElfError):
        return
    roles = [each.role for each in plan.probes]
    assert roles == [Role.RETURN] or (roles.count(Role.ENTRY) == 1 and roles.count(Role.EXIT) == len(roles) - 1 > 0)
    assert roles != [Role.RETURN] or not operation.async_job
    check_sites(planner.image, data, evidence.ranges(), plan.probes, [])
