# SPDX-License-Identifier: Apache-2.0
"""The sides of connections of an OpenSSL without symbols: the tables of methods, and the functions that choose a side."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from itertools import islice

from ssllatency.code.calls import calls_to
from ssllatency.code.flow import Unplannable
from ssllatency.code.returns import returned_address
from ssllatency.code.values import LoadedField
from ssllatency.elf.image import Range
from ssllatency.stacks.openssl.unnamed.finder import CONNECTION, MACHINE, NEAR, SMALL, Fields, OpenSslFinder
from ssllatency.stacks.openssl.unnamed.instructions import loads
from ssllatency.stacks.source_files import references

_MOST_PLACES = 256
# SSL_METHOD of ssl/ssl_local.h: version, flags and mask come first.
_METHOD_NAMES = {0x10000: "TLS", 0x1FFFF: "DTLS"}  # of any version; those of one version lead to the same functions
_FIRST_SLOT, _MOST_SLOTS, _MOST_FLAGS, _POINTER = 16, 10, 3, 8


class Sides:
    """The functions of either side, among those that are `found`."""

    def __init__(self, found: OpenSslFinder) -> None:
        self._found = found
        self._slots: tuple[int, int] = (0, 0)
        self.starts: list[int] = []
        """The functions that accept and connect, as tables of methods hold them."""

    def find_methods(self) -> None:
        """The functions that return the tables of methods which lead to the state machine."""
        machine = self._found.known(MACHINE)
        sites = calls_to(self._found.image, {machine}, (max(0, machine - NEAR), machine + NEAR))[machine]
        sides: dict[int, int] = {}
        for start, _ in {bounds for site in sites if (bounds := self._found.image.function_bounds(site))}:
            for call in self._found.follow(start).calls:
                if call.target == machine and call.arguments[0] == CONNECTION and call.arguments[1] in (0, 1):
                    sides[start] = int(call.arguments[1] == 1)
        accepts, connects = ([start for start, server in sides.items() if server == side] for side in (1, 0))
        if len(accepts) != 1 or len(connects) != 1:
            raise Unplannable("the functions for accepting and connecting aren't found")
        self.starts = [*accepts, *connects]
        tables: dict[int, set[int]] = {}
        for side in self.starts:
            for place in self._found.image.pointers_to(side)[:_MOST_PLACES]:
                if base := self._begins(place):
                    tables.setdefault(base, set()).add(place - base)
        offsets = sorted({offset for found in tables.values() for offset in found})
        if len(offsets) != 2 or offsets[1] - offsets[0] != _POINTER:
            raise Unplannable("the tables of methods differ")
        self._slots = offsets[0], offsets[1]
        self._name_tables(tables)

    def _begins(self, place: int) -> int:
        """Return where the table of methods begins that holds the word at `place`; 0 for none."""
        for number in range(_MOST_SLOTS):
            base = place - _FIRST_SLOT - number * _POINTER
            version, flags = (self._found.image.constant(base + offset, 4) for offset in (0, 4))
            slots = [self._found.image.pointer(base + _FIRST_SLOT + each * _POINTER) or 0 for each in range(number)]
            if version in _METHOD_NAMES and (flags or 0) <= _MOST_FLAGS and all(map(self._found.image.executable, slots)):
                return base
        return 0

    def _name_tables(self, tables: Mapping[int, set[int]]) -> None:
        sides = {frozenset(self._slots): "method", frozenset(self._slots[:1]): "server_method"}
        found: dict[str, list[Range]] = {}
        for place, table in islice(references(self._found.image, tables), _MOST_PLACES):
            bounds = self._found.image.function_bounds(place)
            if bounds and bounds[1] - bounds[0] < SMALL and returned_address(self._found.image, bounds[0]) == table:
                protocol = _METHOD_NAMES[self._found.image.constant(table, 4) or 0]
                side = sides.get(frozenset(tables[table]), "client_method")
                found.setdefault(f"{protocol}_{side}", []).append(bounds)
        for name, returning in found.items():
            self._found.take(name, partial(list, returning))

    def find_sides(self) -> None:
        """SSL_set_accept_state and SSL_set_connect_state, by the slots that they store; and SSL_accept and SSL_connect, which
        call them and shake hands."""
        shakes = self._found.known("SSL_do_handshake")
        for slot, name, calls, number in (
            (self._slots[0], "SSL_set_accept_state", "SSL_accept", 1),
            (self._slots[1], "SSL_set_connect_state", "SSL_connect", 0),
        ):
            self._found.take(name, partial(self._storing, slot))
            if name not in self._found.functions:
                continue
            stores = self._found.follow(self._found.address(name)).stores
            told = {place.offset for place, value in stores if place.base == "argument" and value == number}
            if number and len(told) == 1:
                self._found.offsets["server"] = told.pop()
            both = {self._found.address(name), shakes}
            sites = calls_to(self._found.image, both, self._found.within)
            callers = {self._found.image.function_bounds(site) for site in sites[self._found.address(name)]}
            chosen = self._chosen(self._found.address(name), slot)
            self._found.take(calls, partial(self._only_calling, callers, both, chosen))

    def _storing(self, slot: int) -> list[Range]:
        return [each for each in self._found.small if self._stores(each[0], slot)]

    def _stores(self, address: int, slot: int) -> bool:
        code = self._found.image.code(address, SMALL)
        return loads(self._found.image.machine, code, slot) and bool(self._chosen(address, slot))

    def _chosen(self, address: int, slot: int) -> set[int]:
        """The fields of a connection in which the function stores this slot of its table of methods."""
        return {
            place.offset
            for place, value in self._found.follow(address).stores
            if isinstance(value, LoadedField) and len(value.path) == 2 and value.path[1] == slot and place.base == "argument"
        }

    def _only_calling(
        self, functions: Collection[Range | None], targets: Collection[int], chosen: Collection[int]
    ) -> list[Range]:
        """Those that of a connection which isn't QUIC's call these functions and no others."""
        return [each for each in functions if each and self._calls_of_plain(each, chosen) == targets]

    def _calls_of_plain(self, function: Range, chosen: Collection[int]) -> set[int]:
        """The calls where no side is chosen yet, and where one is: each by itself, as it ends in a function that has more ways
        than are followed."""
        cases: list[Fields] = [{(offset,): value} for offset in chosen for value in (0, 1)]
        called = {call.target for fields in cases for call in self._found.follow(function[0], fields=fields).calls}
        return {target for target in called if isinstance(target, int)} & {
            call.target for call in self._found.raised.calls(function)
        }
