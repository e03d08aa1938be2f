# SPDX-License-Identifier: Apache-2.0
"""Finds static functions by OpenSSL's method tables, and by those of its default provider or of one in a file of its own."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from ssllatency.elf.image import ElfError, Function, Image
from ssllatency.stacks.openssl.tables.methods import ec_key_method, rsa_method
from ssllatency.stacks.openssl.tables.providers import OF_PRIVATE_KEYS, PROPERTIES, Algorithm, algorithms, unreadable
from ssllatency.stacks.openssl.unnamed.found import known_of
from ssllatency.stacks.operation import Operation


class OpenSslTables:
    """The tables of one image."""

    def __init__(self, image: Image) -> None:
        self._image = image

    def find(self, operation: Operation) -> Function | None:
        """By its slot in a method table, else by its slots in the provider's tables."""
        return self._by_method(operation) or self._by_provider(operation)

    def may_hold(self, operation: Operation) -> bool:
        """Whether it is named by no symbol where it is there, or the provider's tables offer it."""
        if operation.library == "provider":
            return bool(self.obstacle(operation))
        unnamed = bool(known_of(self._image).functions) and operation.library in ("libssl", "libcrypto")
        return unnamed or operation.library == "qatengine" or bool(operation.method) or any(self._offered(operation))

    def obstacle(self, operation: Operation) -> str:
        """Return why it wasn't found where it has no symbol."""
        if operation.library == "provider":
            return self._obstacle_of_its_own(operation)
        known = known_of(self._image)
        why = next((known.missing[name] for name in operation.symbols if name in known.missing), "")
        return f"it has no symbol, and {why}" if why and known.functions else ""

    def _by_method(self, operation: Operation) -> Function | None:
        if operation.method is None:
            return None
        table = self._rsa_method if operation.method.table == "RSA_METHOD" else self._ec_key_method
        address = table.get(operation.method.offset)
        return Function(operation.name, address, 0, operation.method.table) if address else None

    def _by_provider(self, operation: Operation) -> Function | None:
        addresses = self._addresses(operation)
        if not addresses or (operation.library == "provider" and len(set(addresses)) > 1):
            return None
        return Function(operation.name, addresses[0], 0, "provider table")

    def _addresses(self, operation: Operation) -> list[int]:
        found = (algorithm.functions.get(function_id) for algorithm, function_id in self._offered(operation))
        return [address for address in found if address]

    def _obstacle_of_its_own(self, operation: Operation) -> str:
        """Return why it isn't known of a provider in a file of its own; "" where it is, or isn't there."""
        if len(set(self._addresses(operation))) > 1:
            return "its provider has several functions for that"
        unread = any(slot.operation in self._unreadable for slot in operation.providers)
        return "it can't be read in the file's tables what its provider offers" if unread else ""

    def _offered(self, operation: Operation) -> Iterator[tuple[Algorithm, int]]:
        """Names of algorithms are the same in small letters."""
        for slot in operation.providers:
            name = slot.algorithm.casefold()
            for algorithm in self._of_its_own if operation.library == "provider" else self._algorithms:
                if algorithm.operation == slot.operation and name in map(str.casefold, algorithm.names):
                    yield algorithm, slot.function_id

    @cached_property
    def _rsa_method(self) -> dict[int, int]:
        return rsa_method(self._image)

    @cached_property
    def _ec_key_method(self) -> dict[int, int]:
        return ec_key_method(self._image)

    @cached_property
    def _algorithms(self) -> tuple[Algorithm, ...]:
        return self._of_provider(PROPERTIES)

    @cached_property
    def _of_its_own(self) -> tuple[Algorithm, ...]:
        return self._of_provider("")

    @cached_property
    def _unreadable(self) -> frozenset[str]:
        """Those of OpenSSL's operations for which it isn't known what the provider of a file of its own offers."""
        known = {each.operation for each in self._of_its_own}
        return frozenset(name for name in OF_PRIVATE_KEYS if name not in known and self._is_unreadable(name))

    def _is_unreadable(self, operation: str) -> bool:
        try:
            return unreadable(self._image, operation)
        except ElfError:
            return True

    def _of_provider(self, properties: str) -> tuple[Algorithm, ...]:
        try:
            return algorithms(self._image, properties)
        except ElfError:
            return ()
