# SPDX-License-Identifier: Apache-2.0
"""The code by which an OpenSSL without symbols tells what a call waits for, and where a connection keeps that."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

from ssllatency.code.evaluation import Evaluation
from ssllatency.code.flow import Unplannable
from ssllatency.code.values import MASK, LoadedField
from ssllatency.elf.image import Function, Range
from ssllatency.stacks.found_functions import FOUND
from ssllatency.stacks.openssl.unnamed.finder import CONNECTION, MOST_FIELDS, Fields, OpenSslFinder
from ssllatency.stacks.openssl.unnamed.instructions import sets

NOTHING, WRITING, READING = 1, 2, 3
"""Codes that SSL_want returns: include/openssl/ssl.h."""
_CODES = {4: 4, 5: 9, 6: 10}  # others, and what SSL_get_error makes of them where no error is queued
_SINCE_3, _BEFORE_3 = {**_CODES, 8: 12}, {**_CODES, 7: 11}  # OpenSSL 1.1.1 has no SSL_RETRY_VERIFY
_UNLESS_ERROR = {1, 5, None}
_CLOSED = {6, None}  # SSL_ERROR_ZERO_RETURN, or what isn't known
_RECEIVED_SHUTDOWN = 2
_MOST_TOLD = 64  # functions that hold SSL_get_error's codes: in real files three at most
_LARGEST = 1536  # bytes of SSL_get_error


class Waits:
    """SSL_get_error and what it asks, among the functions that are `found`."""

    def __init__(self, found: OpenSslFinder) -> None:
        self._found = found
        self._tells = 0  # where the function begins that tells what a call waits for: SSL_get_error, or what that goes on to
        self._wanted: tuple[int, ...] = ()
        self._codes = _BEFORE_3 if found.numbered else _SINCE_3

    def get_error(self) -> list[Range]:
        """The one that returns 0 for a call that succeeded, and for others what SSL_want's codes mean."""
        candidates = [
            function for function in self._found.libssl if function[1] - function[0] < _LARGEST and self._holds_codes(function)
        ]
        if len(candidates) > _MOST_TOLD:
            raise Unplannable("too many functions look like SSL_get_error")
        telling = [function for function in candidates if self._returns_codes(function)]
        if len(telling) != 1:
            return telling
        ((self._tells, _),) = telling
        return self._found.passing_on(self._tells) or telling

    def _holds_codes(self, function: Range) -> bool:
        """Whether it has two of the codes that only few functions have."""
        code = self._found.image.code(function[0], function[1] - function[0])
        few = (self._codes[5], max(self._codes.values()))
        return all(sets(self._found.image.machine, code, number) for number in few)

    def _returns_codes(self, function: Range) -> bool:
        if set(self._found.follow(function[0], {"rsi": 1, "rdx": 1}).results) != {0}:
            return False
        failed = self._failed(function[0])
        callees = {call.target for call in failed.calls if call.arguments[0] == CONNECTION and isinstance(call.target, int)}
        for callee in sorted(callees):
            bounds = self._found.image.function_bounds(callee)
            path = self._one_field(callee, 4)
            if not path or not bounds or bounds[0] != callee:
                continue
            want = Function("SSL_want", callee, bounds[1] - callee, FOUND)
            self._found.image.name_functions({**self._found.functions, "SSL_want": want})
            if all(self._returns(function[0], code, calls={"SSL_want": code}) for code in self._codes):
                self._found.functions["SSL_want"], self._wanted = want, path
                self._found.offsets["rwstate"] = path[0]
                return True
        self._found.image.name_functions(self._found.functions)
        for path in {found.path for found in failed.fields if len(found.path) == 1 and found.size == 4 and any(found.path)}:
            if all(self._returns(function[0], code, fields={path: code}) for code in self._codes):
                self._wanted, self._found.offsets["rwstate"] = path, path[0]
                return True
        return False

    def _failed(self, address: int, fields: Fields | None = None, calls: Mapping[str, int] | None = None) -> Evaluation:
        """SSL_get_error of a call that returned -1."""
        return self._found.follow(address, {"rsi": MASK, "rdx": 1}, fields, calls)

    def _returns(self, address: int, code: int, fields: Fields | None = None, calls: Mapping[str, int] | None = None) -> bool:
        results = set(self._failed(address, fields, calls).results)
        return self._codes[code] in results and results <= {self._codes[code], *_UNLESS_ERROR}

    def _one_field(self, address: int, size: int) -> tuple[int, ...]:
        """The one field of a connection that a small function returns, if not a number; empty where that isn't so."""
        results = {value for value in self._found.follow(address).results if not isinstance(value, int)}
        found = results.pop() if len(results) == 1 else None
        known = isinstance(found, LoadedField) and found.size == size and found.whole and len(found.path) == 1
        return found.path if known and isinstance(found, LoadedField) else ()

    def _case(self, code: int) -> tuple[Fields, Mapping[str, int]]:
        """The assumption that this is what the connection waits for, and that no error is queued."""
        calls = {name: value for name, value in (("SSL_want", code), ("ERR_peek_error", 0)) if name in self._found.functions}
        return {self._wanted: code}, calls

    def called_for(self, code: int) -> set[int]:
        calls = self._failed(self._tells, *self._case(code)).calls
        return {call.target for call in calls if isinstance(call.target, int)}

    def gets_bio(self, code: int) -> set[int]:
        calls = self._failed(self._tells, *self._case(code)).calls
        others = {self._found.address("SSL_want"), self._found.address("ERR_peek_error")}
        return {
            call.target
            for call in calls
            if call.arguments[0] == CONNECTION and isinstance(call.target, int) and call.target not in others
        }

    def find_bios(self) -> None:
        """The fields of the BIOs, where SSL_get_error takes them itself and asks BIO_test_flags of them."""
        for name, code in (("rbio", READING), ("wbio", WRITING)):
            calls = self._failed(self._tells, *self._case(code)).calls
            asked = {call.arguments[0] for call in calls if call.target == self._found.known("BIO_test_flags")}
            paths = {each.path for each in asked if isinstance(each, LoadedField) and each.is_pointer and len(each.path) == 1}
            if len(paths) == 1:
                self._found.offsets[name] = paths.pop()[0]

    def test_flags(self) -> list[Range]:
        """The function that is asked of a BIO whether it should be read."""
        calls = self._failed(self._tells, *self._case(READING)).calls
        asked = {call.target for call in calls if call.arguments[1] == 1 and isinstance(call.target, int)}
        return self._found.image.functions_at(asked)

    def find_shutdown(self) -> None:
        """The field that together with the last alert tells SSL_get_error that the peer has closed. Newer compilers add a carry
        to SSL_ERROR_SYSCALL for that, which isn't followed: then what is returned isn't known."""
        address, (fields, calls) = self._tells, self._case(NOTHING)
        read = self._found.follow(address, {"rsi": 0, "rdx": 1}, fields, calls).fields
        paths = {found.path for found in read if len(found.path) == 1} - {self._wanted, (0,)}
        if len(paths) > MOST_FIELDS:
            raise Unplannable("SSL_get_error looks at too many fields")
        closed = {
            one
            for one, other in permutations(sorted(paths), 2)
            if self._closed(address, {**fields, one: _RECEIVED_SHUTDOWN, other: 0}, calls)
            and not self._closed(address, {**fields, one: 0, other: 0}, calls)
        }
        if len(closed) == 1:
            self._found.offsets["shutdown"] = closed.pop()[0]

    def _closed(self, address: int, fields: Fields, calls: Mapping[str, int]) -> bool:
        return not _CLOSED.isdisjoint(self._found.follow(address, {"rsi": 0, "rdx": 1}, fields, calls).results)
