# SPDX-License-Identifier: Apache-2.0
"""The entry sites that see a handshake's errors, and that of the function which registers the descriptor of an offload
engine."""

from __future__ import annotations

from ssllatency.code.bodies import Bodies
from ssllatency.code.flow import Unplannable
from ssllatency.code.machine import Emulation, Machine
from ssllatency.elf.image import ElfError, Image
from ssllatency.errors import phrase
from ssllatency.probes.plan import ErrorSite, Probe, Role
from ssllatency.probes.sites.entry import Site, entry_site
from ssllatency.stacks.base import LARGEST_FRAME
from ssllatency.stacks.phases import ARGUMENTS, ErrorFunction


class Entries:
    """Plans entry sites of one image's functions."""

    def __init__(self, image: Image, machine: Machine, bodies: Bodies, emulation: Emulation) -> None:
        self._image = image
        self._machine = machine
        self._bodies = bodies
        self._emulation = emulation

    def of(self, function: ErrorFunction) -> ErrorSite:
        """The site that sees the errors that a function records."""
        arguments = ARGUMENTS[function.kind]
        probe = self.named(function.name, *arguments) if function.address is None else self.at(function.address, *arguments)
        return ErrorSite(function.kind, function.name, probe)

    def named(self, name: str, *arguments: int) -> Probe:
        """The entry of the function `name`, with these arguments in their registers."""
        function = self._image.function(name)
        if function is None:
            raise Unplannable(f"the file has no {name}")
        return self.at(function.address, *arguments, size=function.size)

    def at(self, start: int, *arguments: int, size: int = 0) -> Probe:
        """The entry of the function that begins at `start`."""
        needed = frozenset(self._machine.argument_registers[index] for index in arguments)
        return probe_at(self._image, entry_site(self._bodies.graph(start, size), needed, self._emulation), Role.ENTRY)


def probe_at(image: Image, site: Site, role: Role) -> Probe:
    """The probe of a site. Unplannable where the file has no bytes for it, or its frame can't be told to the kernel side."""
    check_frame(site)
    try:
        offset = image.file_offset(site.address)
    except ElfError as error:
        raise Unplannable(phrase(error)) from error
    return Probe(offset, site.address, role, site.instruction.text, site.cost, site.stack_delta)


def check_frame(site: Site | Probe) -> None:
    """Unplannable where the site's frame can't be told to the kernel side."""
    if not 0 <= site.stack_delta < LARGEST_FRAME:
        raise Unplannable(f"the stack at {site.address:#x} is too far from where it was at the function's entry")
