# SPDX-License-Identifier: Apache-2.0
"""Calls of the application's callbacks, and of what looks a session up, in BoringSSL and AWS-LC, with symbols or without.

Which function a pointer leads to isn't known, but where it lies: behind a pointer in SSL to an SSL_CTX, or to the structure
with its certificates. SSL has two pointers to an SSL_CTX, and one call only is made through either: that of the server name's
callback. Those through other fields there are told apart by the source file whose errors their function raises, and by the
arguments that lie beside the callback. What isn't clear there is absent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property

from ssllatency.code.bodies import Bodies
from ssllatency.code.calls import calls_to
from ssllatency.code.flow import Graph, Unplannable
from ssllatency.code.machine import Flow, Instruction, Machine
from ssllatency.code.pointer_calls import called_loads, calls_through, origins
from ssllatency.data_class import dataclass
from ssllatency.elf.image import Image
from ssllatency.stacks.boringssl.connection import boringssl_offsets
from ssllatency.stacks.boringssl.labels import Labels, only
from ssllatency.stacks.boringssl.raised_errors import errors_of
from ssllatency.stacks.openssl.handshake.libssl_code import LibsslCode

_EXTENSIONS, _SESSIONS, _SERVER, _SERVER_TLS13 = "extensions", "ssl_session", "handshake_server", "tls13_server"
_CLIENTS = ("handshake_client", "tls13_client")
# openssl/ssl.h: SSL_R_INVALID_ALPN_PROTOCOL, and what is raised where the callback refuses all protocols.
_ALPN = {190, 307}
_SSL, _FIRST, _SECOND, _THIRD = 0, 0, 1, 2  # where a handshake points to its SSL; arguments
_POINTER = 8
# The functions of an application's method for tickets, by their places in it.
_OVERHEAD, _SEAL, _OPEN = 0, 8, 16
_MOST_PARTS = 2  # functions between the call of that and the one that deals with a ticket


@dataclass(frozen=True)
class _Call:
    """An indirect call. `fields`: the fields through which it may go, each with the offset of the pointer to its structure,
    None where that isn't known; empty where it may go elsewhere as well."""

    address: int
    graph: Graph
    fields: frozenset[tuple[int | None, int]]

    @property
    def field(self) -> tuple[int | None, int]:
        """The one field; (None, -1) where there are more, or none."""
        return next(iter(self.fields)) if len(self.fields) == 1 else (None, -1)


class CallbackCalls:
    """The calls in an image's libssl. Unplannable, or ElfError, from the constructor and each of its functions where these
    can't be told."""

    def __init__(self, image: Image, machine: Machine, bodies: Bodies) -> None:
        self._image, self._machine, self._bodies = image, machine, bodies
        self._errors = errors_of(image)
        self._part = LibsslCode(self._errors.around((_EXTENSIONS, _SESSIONS, _SERVER, _SERVER_TLS13, *_CLIENTS)))
        self._calls: dict[int, list[_Call]] = {}

    def finders(self) -> dict[str, Callable[[], Collection[int]]]:
        """By the callback's name, the function that finds the addresses of its calls."""
        return {
            "select_certificate_cb": self._select_certificate,
            "client_hello_cb": self._client_hello,
            "servername_cb": lambda: [self._server_name.address],
            "alpn_select_cb": self._alpn,
            "cert_cb": self._certificate,
            "status_cb": self._status,
            "new_session_cb": self._new_session,
            "ticket_key_cb": self._ticket_key,
            "ticket_aead_method": self._ticket_method,
        }

    # What looks a session up.

    def process_ticket(self) -> int:
        """The function that calls the application's method to open a ticket, or the one that alone calls that one; TLS 1.3's
        server calls it, and what looks for sessions of earlier versions."""
        start = self._opens
        for _ in range(_MOST_PARTS):
            callers = self._callers(start)
            if callers & self._starts_raising(_SERVER_TLS13):
                return start
            start = only(callers, "functions call what opens tickets")
        raise Unplannable("TLS 1.3's server isn't seen to call what opens tickets")

    @cached_property
    def _opening(self) -> list[int]:
        """The calls that have the application's method open a ticket."""
        return calls_through(self._image, self._machine, self._bodies, (self._method, _OPEN), self._part)

    @property
    def _opens(self) -> int:
        return only(self._bodies.functions(self._opening), "functions have the application open tickets")

    def get_session(self) -> list[int]:
        """The calls of the callback for a session, in the function that calls process_ticket() for earlier versions than TLS
        1.3."""
        callers = self._callers(self.process_ticket()) - self._starts_raising(_SERVER_TLS13)
        looking = [each for each in callers if self._callers(each) & self._starts_raising(_SERVER)]
        calls = self._of_context(self._indirect(only(looking, "functions look for sessions")))
        return self._of_one_field([call for call in calls if self._passes(call, _FIRST, {_SSL})])

    def calls_of(self, start: int) -> list[int]:
        """The calls in libssl of the function that begins there."""
        return calls_to(self._image, {start}, self._part.within)[start]

    def _callers(self, start: int) -> set[int]:
        return self._bodies.functions(self.calls_of(start)) - {start}

    # Callbacks.

    @cached_property
    def _server_name(self) -> _Call:
        """The one call through the same field of either SSL_CTX, to which what lies behind that field is passed."""
        calls = [
            call
            for call in self._in_file(_EXTENSIONS)
            if len(call.fields) == 2
            and len({field for _, field in call.fields}) == 1
            and None not in {base for base, _ in call.fields}
            and self._passes(call, _THIRD, {max(field for _, field in call.fields) + _POINTER})
        ]
        return only(calls, "calls are made through either SSL_CTX")

    @property
    def _contexts(self) -> set[int | None]:
        return {base for base, _ in self._server_name.fields}

    def _of_context(self, calls: Iterable[_Call]) -> Iterator[_Call]:
        return (call for call in calls if call.field[0] in self._contexts and call.field != self._server_name.field)

    def _select_certificate(self) -> list[int]:
        """The calls to which no pointer is passed that was loaded, but an address on the stack, and which TLS 1.3's own
        functions don't make."""
        later = {call.field for call in self._of_context(self._in_file(_SERVER_TLS13))}
        calls = [
            call
            for call in self._of_context(self._in_file(_SERVER))
            if not self._loaded(call, _FIRST) and call.field not in later
        ]
        return self._of_one_field(calls)

    def _client_hello(self) -> list[int]:
        return self._of_one_field(self._beside(self._of_context(self._in_file(_SERVER)), _THIRD))

    def _alpn(self) -> list[int]:
        """The one indirect call of the function that raises these errors."""
        raising = [function for function, raised in self._errors.of(_EXTENSIONS).items() if raised >= _ALPN]
        function = only(raising, "negotiate protocols")
        return [only([call.address for call in self._indirect(function[0])], "callbacks negotiate protocols")]

    def _status(self) -> list[int]:
        calls = (*self._in_file(_SERVER), *self._in_file(_EXTENSIONS))
        return self._of_one_field(self._beside(self._of_context(calls), _SECOND))

    def _certificate(self) -> list[int]:
        """The calls with the SSL and what lies behind the callback, of another structure; a client's as well."""
        calls = [call for call in self._in_file(_SERVER) if call.field[0] not in {None, _SSL, *self._contexts}]
        field = only({call.field for call in self._beside(calls, _SECOND, words=2)}, "fields have such a callback")
        files = (_SERVER, _SERVER_TLS13, *_CLIENTS)
        return sorted({call.address for file in files for call in self._in_file(file) if call.field == field})

    def _new_session(self) -> list[int]:
        """The calls with the established session."""
        offsets = boringssl_offsets(self._image)
        if offsets is None:
            raise Unplannable("the connection's state isn't found")
        session = Labels(self._image, self._errors, offsets["boringssl"]).session()
        calls = self._of_context(self._in_or_below(self._starts_raising(_SERVER)))
        return self._of_one_field([call for call in calls if self._passes(call, _SECOND, {session})])

    def _ticket_key(self) -> list[int]:
        """The calls of what makes tickets, through an SSL_CTX, and those through the same field of what opens them."""
        sealing = list(self._of_context(self._in_or_below({self._seals})))
        field = only({call.field[1] for call in sealing}, "fields have such a callback")
        opening = self._of_context(self._in_or_below({self._opens, self.process_ticket()}))
        return sorted({call.address for call in (*sealing, *opening) if call.field[1] == field})

    def _ticket_method(self) -> list[int]:
        sealing = [call.address for call in self._indirect(self._seals) if call.field == (self._method, _SEAL)]
        return sorted((*sealing, *self._opening))

    @property
    def _seals(self) -> int:
        return self._sealing[0]

    @property
    def _method(self) -> int:
        return self._sealing[1]

    @cached_property
    def _sealing(self) -> tuple[int, int]:
        """The one function that asks the application's method for tickets for its overhead and has it seal one, and the offset
        of the pointer to that method."""
        found = []
        for start in sorted(self._starts_raising(_SESSIONS)):
            fields = [call.field for call in self._indirect(start)]
            methods = {method for method, _ in fields if method is not None}
            found += [
                (start, each) for each in methods if {at for method, at in fields if method == each} == {_OVERHEAD, _SEAL}
            ]
        return only(found, "functions seal tickets")

    # Calls.

    def _starts_raising(self, file: str) -> set[int]:
        return {start for start, _ in self._errors.of(file)}

    def _in_file(self, file: str) -> Iterator[_Call]:
        for start in sorted(self._starts_raising(file)):
            yield from self._indirect(start)

    def _indirect(self, start: int) -> list[_Call]:
        """The indirect calls of the function that begins there."""
        if start not in self._calls:
            try:
                graph = self._bodies.graph(start)
            except Unplannable:
                self._calls[start] = []
            else:
                nodes = sorted(graph.nodes.items())
                self._calls[start] = [_call(graph, each) for _, each in nodes if each.flow is Flow.INDIRECT_CALL]
        return self._calls[start]

    def _in_or_below(self, starts: Collection[int]) -> Iterator[_Call]:
        """The calls of these functions, and of those in libssl that they call."""
        bounds = [each for start in starts if (each := self._image.function_bounds(start))]
        called = {callee for each in bounds for callee in self._errors.callees(each) if self._part.holds(callee[0])}
        for start in sorted({each[0] for each in (*bounds, *called)}):
            yield from self._indirect(start)

    def _loaded(self, call: _Call, argument: int) -> set[int]:
        """The offsets that an argument may be loaded from."""
        register = self._machine.argument_registers[argument]
        return {load.offset for load in origins(call.graph, call.address, register)}

    def _passes(self, call: _Call, argument: int, offsets: Collection[int]) -> bool:
        loaded = self._loaded(call, argument)
        return bool(loaded) and loaded <= set(offsets)

    def _beside(self, calls: Iterable[_Call], argument: int, words: int = 1) -> list[_Call]:
        """Those with the SSL, and so with what lies one of so many words behind the callback."""
        return [
            call
            for call in calls
            if self._passes(call, _FIRST, {_SSL})
            and self._passes(call, argument, [call.field[1] + _POINTER * (word + 1) for word in range(words)])
        ]

    def _of_one_field(self, calls: Collection[_Call]) -> list[int]:
        only({call.field[1] for call in calls}, "fields have such a callback")
        return [call.address for call in calls]


def _call(graph: Graph, instruction: Instruction) -> _Call:
    fields: set[tuple[int | None, int]] = set()
    for load in called_loads(graph, instruction):
        bases = {base.offset for base in origins(graph, load.address, load.base)}
        fields.add((bases.pop() if len(bases) == 1 else None, load.offset))
    return _Call(instruction.address, graph, frozenset(fields))
