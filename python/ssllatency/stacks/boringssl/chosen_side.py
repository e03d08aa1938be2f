# SPDX-License-Identifier: Apache-2.0
"""The side of a connection in a BoringSSL without symbols: by the bit that is set where a side is chosen.

SSL_set_accept_state, and SSL_accept where it has that built in, stores the address of the server's state machine in the
connection and sets the bit; SSL_set_connect_state and SSL_connect store the client's and clear it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from ssllatency.elf.image import Image, Range
from ssllatency.stacks.boringssl.raised_errors import RaisedErrors
from ssllatency.stacks.boringssl.stored import Stored, aarch64_stored, x86_stored
from ssllatency.stacks.source_files import places_naming

SERVER, CLIENT = "handshake_server", "handshake_client"
"""The source files of the two state machines."""
_LONGEST_CALLED = 96  # bytes of a function that does nothing but choose the side


class ChosenSide:
    """The functions of one image that choose a side. `callers` gives those among libssl's that call a function; `within` is
    where libssl's functions lie, once that is known."""

    def __init__(self, image: Image, errors: RaisedErrors, callers: Callable[[Range], Collection[Range]]) -> None:
        self._image, self._errors, self._callers = image, errors, callers
        self.within: Range | None = None
        self._by_table = image.machine == "aarch64"  # whose code loads addresses of exported functions out of a table

    def of(self, function: Range) -> set[str]:
        """The sides whose state machine the function stores, itself or by a small one that it calls: their source files."""
        small = (callee for callee in self._errors.callees(function) if callee[1] - callee[0] <= _LONGEST_CALLED)
        machines = {address for each in (function, *small) for address in self._stored(each).functions}
        return {side for address in machines for side in (SERVER, CLIENT) if self._runs(address, side)}

    def bit(self) -> dict[str, int]:
        """The offset "server" in a connection, and the bit "server_bits" there that is set for servers; empty if unclear."""
        chosen = {side: list(self._choosing(side)) for side in (SERVER, CLIENT)}
        machines = {side: {machine for machine, _ in each} for side, each in chosen.items()}
        if len(machines[SERVER]) != 1 or len(machines[CLIENT]) > 1:
            return {}
        bits = set.intersection(*({(at, mask) for at, mask in bits} for _, bits in chosen[SERVER]))
        cleared = [{(at, mask) for at, mask in bits} for _, bits in chosen[CLIENT]]
        if len(bits) != 1 or any(not bits <= each for each in cleared):
            return {}
        ((offset, mask),) = bits
        return {"server": offset, "server_bits": mask} if mask.bit_count() == 1 else {}

    def _choosing(self, side: str) -> Iterator[tuple[int, set[tuple[int, int]]]]:
        """The state machine that each function stores which chooses this side, and the bits that it sets, or clears, beside."""
        raising = set(self._errors.of(side))
        candidates = {*raising, *(caller for function in raising for caller in self._callers(function))}
        machines = {function[0] for function in candidates if self._runs(function[0], side)}
        tables = {place for machine in machines for place in self._image.pointers_to(machine)} if self._by_table else set()
        places = places_naming(self._image, machines | tables, self.within)
        for function in {bounds for place in places if (bounds := self._image.function_bounds(place))}:
            stored = self._stored(function)
            changed = stored.sets if side == SERVER else stored.clears
            for machine in machines & stored.functions.keys():
                yield machine, {(at, mask) for base, at, mask in changed if base in stored.functions[machine]}

    def _runs(self, address: int, side: str) -> bool:
        """Whether the function there, or what it calls, raises errors of this side's handshake, and of the other's not."""
        bounds = self._image.function_bounds(address)
        if bounds is None or bounds[0] != address:
            return False
        raising = {bounds, *self._errors.callees(bounds)}
        own, other = (not raising.isdisjoint(self._errors.of(each)) for each in (side, CLIENT if side == SERVER else SERVER))
        return own and not other

    def _stored(self, function: Range) -> Stored:
        start, end = function
        code = self._image.code(start, end - start)
        return x86_stored(code, start) if self._image.machine == "x86-64" else aarch64_stored(self._image, code, start)
