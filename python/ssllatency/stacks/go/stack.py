# SPDX-License-Identifier: Apache-2.0
"""Go's crypto/tls as a stack.

A Go program is recognised by its build information, and by the functions in its table of functions; symbols aren't needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from ssllatency import abi
from ssllatency.abi import Convention
from ssllatency.errors import phrase
from ssllatency.stacks.base import (
    CalleeSite,
    CallingConvention,
    Codes,
    FunctionSites,
    HandshakeCalls,
    Library,
    Mark,
    PhaseSites,
    Stack,
)
from ssllatency.stacks.go.operations import CLIENT, LEAVING, LIBRARY, OPERATIONS, SERVER
from ssllatency.stacks.go.traced_functions import (
    CHOOSERS,
    CHOOSES,
    FUNCTIONS,
    KEYS,
    PARAMETERS,
    SERVER_HANDSHAKE,
    TLS,
    TracedFunction,
)
from ssllatency.stacks.phases import MissingPart

if TYPE_CHECKING:
    from ssllatency.code.bodies import Bodies
    from ssllatency.code.machine import Emulation
    from ssllatency.code.values import FieldPath
    from ssllatency.elf.image import Image
    from ssllatency.stacks.go.plan import FunctionPlan, FunctionPlanner
    from ssllatency.stacks.go.program import Program
    from ssllatency.stacks.go.run_time_types import Types
    from ssllatency.stacks.go.sites.deferred import DeferredExit
    from ssllatency.stacks.names import Names
    from ssllatency.stacks.operation import Operation

_VERSION_AT = 32  # since Go 1.18 the version follows the header of the build information, its length before it
_VERSION_INLINE = 2
_LONGEST = 128
_GO, _TLS = "Go", "Go crypto/tls"
_NET_ERROR, _DEADLINE = "*net.OpError", "*poll.DeadlineExceededError"
_TRACED: Mapping[str, TracedFunction] = {function.name: function for function in FUNCTIONS}


def _version(piece: bytes, at: int) -> str | None:
    header = piece[at : at + _VERSION_AT + 1]
    if len(header) <= _VERSION_AT or not header[15] & _VERSION_INLINE:
        return ""
    length = header[_VERSION_AT]
    text = piece[at + _VERSION_AT + 1 :][: min(length, _LONGEST)]
    version = re.match(rb"go[\d.]+[a-z0-9]*", text)
    return version[0].decode() if version else ""


@lru_cache(maxsize=1)
def _program(image: Image) -> Program:
    """Return what is read of the image, which is asked for several times in a row."""
    from ssllatency.stacks.go.program import Program

    return Program(image)


def _of_types(image: Image, read: Callable[[Types], tuple[int, ...]]) -> tuple[int, ...]:
    """Return what `read` finds in the program's types; nothing where they are damaged."""
    from ssllatency.elf.source import ElfError

    try:
        return read(_program(image).types)
    except ElfError:
        return ()


class GoSites:
    """Finds the sites of operations in one program of Go 1.`minor`."""

    def __init__(self, planner: FunctionPlanner, machine: str, minor: int | None) -> None:
        self._planner, self._machine, self._minor = planner, machine, minor

    def phases(self) -> tuple[Sequence[PhaseSites], Sequence[MissingPart]]:
        """Those of the functions that handshakes call, and of their goroutines' waits."""
        from ssllatency.stacks.go.handshake.phases import Phases

        return Phases(self._planner, self._minor).plan()

    def chooses(self) -> Sequence[FunctionSites]:
        """Those of a Config's method, or behind its calls where that costs less. Unplannable where a tls.Certificate doesn't
        begin with what the kernel side reads."""
        from ssllatency.code.flow import Unplannable

        if self._planner.certificates_offset != 0:
            raise Unplannable("the program's types don't show where a tls.Certificate has its certificates")
        callers = [self._planner.returns_cheaply(caller) for caller in CHOOSERS]
        behind = [_behind(caller) for caller in callers if caller]
        return behind if len(behind) == len(callers) else self._only(CHOOSES)

    def parameters(self) -> Sequence[FunctionSites]:
        """Those of a connection's method."""
        return self._only(PARAMETERS)

    def _only(self, traced: TracedFunction) -> Sequence[FunctionSites]:
        sites = self._function_sites(traced, 0)
        return () if sites is None else (sites,)

    def sites(self, operation: Operation) -> FunctionSites | None:
        """Those of the function that the operation's only symbol names."""
        return self._function_sites(_TRACED[operation.symbols[0]], operation.convention is Convention.SSL_IO)

    def _function_sites(self, traced: TracedFunction, result: int) -> FunctionSites | None:
        from ssllatency.code.flow import Unplannable
        from ssllatency.stacks.go.functions import FOUND
        from ssllatency.stacks.go.sites.choose import RESULTS

        found = self._planner.plan(traced)
        if not found.address:
            return None
        if found.obstacle or found.entry is None:
            raise Unplannable(found.obstacle)
        return FunctionSites(
            name=found.traced.name,
            address=found.address,
            size=found.size,
            found=FOUND,
            entry=found.entry.address,
            not_taken=found.entry.not_taken,
            exits=found.exits,
            result=RESULTS[self._machine][result] if found.exits else "",
            deferred=_callee_site(found.deferred) if found.deferred else None,
        )


def _behind(caller: FunctionPlan) -> FunctionSites:
    """The sites behind the calls that it makes."""
    from ssllatency.stacks.go.functions import FOUND

    exits = tuple(call.behind for call in caller.calls)
    return FunctionSites(caller.traced.name, caller.address, caller.size, FOUND, caller.calls[0].call, exits=exits)


def _callee_site(deferred: DeferredExit) -> CalleeSite:
    code = deferred.code
    end, entry = code.address + code.size, code.entry
    return CalleeSite(code.address, end, entry.address, entry.not_taken, deferred.depth, deferred.results)


class Go(Stack):
    """Go's own TLS."""

    name = "go"
    title = "Go"
    number = abi.Stack.GO
    libraries = (Library(LIBRARY, (), called=True),)
    operations = OPERATIONS
    marks = {_GO: Mark(b"\xff Go buildinf:", _version), _TLS: Mark(f"{TLS}.(*Conn).".encode())}  # noqa: RUF012
    texts = (marks[_TLS].text,)
    states_version = True
    codes = Codes(reading=0, writing=0, reasons={})  # what a connection waits for isn't in it
    callees = ()
    transport = ()
    handshake_calls = HandshakeCalls(shakes=SERVER, beside=(CLIENT, *LEAVING))
    inlines_handshake = False
    offers = {}  # noqa: RUF012
    keys = KEYS
    convention = CallingConvention.GO
    scripted = False
    has_symbols = False

    def identify(self, versions: Mapping[str, str]) -> tuple[str, str] | None:
        """With the version of Go."""
        return (_TLS, versions[_GO]) if {_GO, _TLS} <= versions.keys() else None

    def is_inside(self, image: Image) -> bool:
        """Whether the program has crypto/tls' handshake; also where its table of functions can't be read: its name is there. A
        debugger, say, has only the name."""
        from ssllatency.elf.source import ElfError

        try:
            return bool(_program(image).functions.named(SERVER_HANDSHAKE))
        except ElfError:
            return True

    def recognises(self, image: Image) -> bool:
        """Whether its table of functions has crypto/tls' handshake."""
        return bool(self.own_libraries(image))

    def own_libraries(self, image: Image) -> tuple[str, ...]:
        """crypto/tls, where it can be read."""
        from ssllatency.elf.source import ElfError

        try:
            program = _program(image)
            return (LIBRARY,) if program.build_info.version and program.functions.named(SERVER_HANDSHAKE) else ()
        except ElfError:
            return ()

    def obstacle(self, image: Image) -> str:
        """Return what is damaged, or unknown, in its tables."""
        from ssllatency.elf.source import ElfError

        try:
            count = len(_program(image).functions)
        except ElfError as error:
            return phrase(error)
        return "" if count else "its table of functions is empty"

    def site_planner(self, image: Image, emulation: Emulation) -> GoSites:
        """By the runtime's own tables."""
        from ssllatency.stacks.go.plan import FunctionPlanner

        program = _program(image)
        return GoSites(FunctionPlanner(program, emulation), image.machine, program.build_info.minor)

    def version(self, image: Image) -> str:
        """Go's version."""
        return f"{_TLS} {_program(image).build_info.version}"

    def name_and_release(self, version: str) -> tuple[str, str]:
        """Return them as a mark shows them."""
        return _TLS, version.rpartition(" ")[2]

    def connection(self, image: Image) -> dict[str, int]:
        """Return which byte tells clients, from the type of connections; and by which errors a deadline is known to have
        passed."""
        from ssllatency.elf.source import ElfError
        from ssllatency.stacks.go.handshake.connection import HELD_ERROR, sent_alert

        try:
            types = _program(image).types
            client = types.offset(TLS, "Conn", "isClient")
            held, errors = types.offset("net", "OpError", "Err"), types.errors
            sent = sent_alert(types)
        except ElfError:
            return {}
        found = {name: offset for name, offset in (("client", client), ("sent", sent)) if offset is not None}
        if held == HELD_ERROR and {_NET_ERROR, _DEADLINE} <= errors.keys():
            found["deadline"] = errors[_DEADLINE] - errors[_NET_ERROR]
        return found

    def known_types(self, image: Image) -> tuple[int, ...]:
        """The hashes of those by which errors and sockets are known."""
        from ssllatency.stacks.go.handshake.connection import known_types

        return _of_types(image, known_types)

    def runtime_fields(self, image: Image) -> tuple[int, ...]:
        """Those by which a goroutine is known to keep its thread, and the application's functions are known."""
        from ssllatency.stacks.go.handshake.connection import runtime_fields

        return _of_types(image, runtime_fields)

    def labels(self, image: Image) -> dict[str, FieldPath]:
        """The fields of a connection, from its type."""
        from ssllatency.elf.source import ElfError
        from ssllatency.stacks.go.handshake.connection import label_paths

        try:
            return label_paths(_program(image).types)
        except ElfError:
            return {}

    def runs_handshakes_alone(self, image: Image, bodies: Bodies) -> bool:  # noqa: ARG002
        """Whether all handshakes go through the two functions that are watched: reads and writes call these."""
        return True

    def names(self, image: Image) -> Names:
        """Those of TLS' numbers, and of the types of its errors."""
        from ssllatency.elf.source import ElfError
        from ssllatency.stacks.go.handshake.names import names

        try:
            return names(_program(image).types.error_hashes)
        except ElfError:
            return names({})
