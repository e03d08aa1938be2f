# SPDX-License-Identifier: Apache-2.0
"""The entry sites that see a handshake's errors, and that of the function which registers the descriptor of an offload
engine."""

from __future__ import annotations

from ssllatency.code.bodies import Bodies
from ssllatency.code.calls import calls_of
from ssllatency.code.flow import Unplannable
from ssllatency.code.machine import Emulation, Machine
from ssllatency.elf.image import ElfError, Image
from ssllatency.probes.handshake.plan import ErrorKind, ErrorSite
from ssllatency.probes.plan import LARGEST_FRAME, Probe, Role
from ssllatency.probes.sites.entry import Site, entry_site

_WAKE = "ASYNC_WAIT_CTX_set_wait_fd"


class Entries:
    """Plans entry sites of one image's functions."""

    def __init__(self, image: Image, machine: Machine, bodies: Bodies, emulation: Emulation) -> None:
        self._image = image
        self._machine = machine
        self._bodies = bodies
        self._emulation = emulation

    def raising(self) -> list[ErrorSite]:
        """Where errors are put into libcrypto's queue. Unplannable where the library has no such function that is known."""
        if self._image.function("ERR_vset_error"):
            names = ("ERR_vset_error", "ERR_set_error") if self._raises_apart() else ("ERR_vset_error",)
            return [ErrorSite(ErrorKind.RAISE, name, self.named(name, 0, 1)) for name in names]
        return [ErrorSite(ErrorKind.RAISE_1_1, "ERR_put_error", self.named("ERR_put_error", 0, 2))]

    def _raises_apart(self) -> bool:
        """Whether ERR_set_error, with the same first arguments, has the other one built in instead of calling it."""
        function = self._image.function("ERR_set_error")
        bounds = self._image.function_bounds(function.address) if function else None
        return bounds is not None and not calls_of(self._image, ["ERR_vset_error"], bounds)["ERR_vset_error"]

    def wake(self) -> Probe:
        """Where an engine says which file descriptor will tell that its work is done."""
        return self.named(_WAKE, 0, 1, 2)

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
    if not 0 <= site.stack_delta < LARGEST_FRAME:
        raise Unplannable(f"the stack at {site.address:#x} is too far from where it was at the function's entry")
    try:
        offset = image.file_offset(site.address)
    except ElfError as error:
        raise Unplannable(str(error).rstrip(".")) from error
    return Probe(offset, site.address, role, site.instruction.text, site.cost, site.stack_delta)
