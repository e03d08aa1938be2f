# SPDX-License-Identifier: Apache-2.0
"""What must hold of the plan of one function, whatever its instructions: the code itself is what a fuzzer writes.

The function lies in an image made once, whose unwind tables and symbols know it. So all that is tried is decoded, followed and
planned: what invariants.py says of sites must hold of each, and the two decoders must agree on where instructions begin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ssllatency.code.aarch64.instructions import Aarch64
from ssllatency.code.flow import Code, Unplannable
from ssllatency.code.machine import BASELINE, Emulation, Machine
from ssllatency.code.x86.instructions import X86
from ssllatency.elf.image import ElfError, Image
from ssllatency.openssl.tails import Tails
from ssllatency.probes.catalogue import BY_NAME
from ssllatency.probes.evidence import Evidence
from ssllatency.probes.plan import Role
from ssllatency.probes.sites.operation import Planner
from tests.fuzz.invariants import check_sites, image_of

ROOM = 512  # bytes of the function that are the fuzzer's
OPERATIONS = ("SSL_do_handshake", "ECDSA_sign")  # one whose return may be probed, one that may run inside an ASYNC job
_EMULATIONS = (BASELINE, Emulation(multibyte_nops=True, optimised_nop5=True, calls=False))


@dataclass(frozen=True)
class Template:
    """An image with functions called as OPERATIONS, each of ROOM bytes, and what fills the rest of a shorter one."""

    data: bytes
    filling: bytes

    def filled(self, code: bytes) -> tuple[Image, bytes]:
        """The image whose functions have this code, and its bytes."""
        data, image = bytearray(self.data), image_of(self.data)
        body = code[:ROOM]
        body += (self.filling * ROOM)[: ROOM - len(body)]
        for name in OPERATIONS:
            function = image.own_function(name)
            assert function is not None
            at = image.file_offset(function.address)
            data[at : at + ROOM] = body
        return image_of(bytes(data)), bytes(data)


def check_code(template: Template) -> Callable[[bytes], None]:
    """Of the plans of functions with any code."""

    def check(code: bytes) -> None:
        image, data = template.filled(code)
        machine: Machine = Aarch64() if image.machine == "aarch64" else X86()
        for name in OPERATIONS:
            for emulation in _EMULATIONS:
                _check_operation(image, data, machine, name, emulation)

    return check


def _check_operation(image: Image, data: bytes, machine: Machine, name: str, emulation: Emulation) -> None:
    function = image.own_function(name)
    assert function is not None
    evidence = Evidence(image)
    try:
        planner = Planner(image, machine, Code(image, machine), Tails(image), emulation, return_probes=True)
        plan = planner.plan(BY_NAME[name], function)
        evidence.add(plan.probes, (function.address, function.address + function.size))
    except (Unplannable, ElfError):
        return
    roles = [each.role for each in plan.probes]
    assert roles == [Role.RETURN] or (roles.count(Role.ENTRY) == 1 and roles.count(Role.EXIT) == len(roles) - 1 > 0)
    assert roles != [Role.RETURN] or not BY_NAME[name].async_job
    check_sites(image, data, evidence.ranges(), plan.probes, [])
