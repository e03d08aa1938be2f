# SPDX-License-Identifier: Apache-2.0
"""Targets of a tail call through a method table, for the functions of OpenSSL that end in one.

Which table that is comes from OpenSSL's source (ssl/ssl_lib.c, crypto/rsa/rsa_crpt.c, crypto/ec/ecdsa_ossl.c and others): the
name of the function says what structure it jumps through, the displacement in the code which slot. An engine may put a method
of its own in a slot at run time: calls that end in such a method have no exit here, and are counted as unmatched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

from ssllatency.code.returns import returned_address
from ssllatency.elf.image import Image
from ssllatency.stacks.openssl.tables.methods import ec_key_method, rsa_method, ssl_methods

_RSA = ("RSA_private_encrypt", "RSA_private_decrypt", "RSA_public_encrypt", "RSA_public_decrypt", "RSA_sign", "RSA_verify")
_EC_KEY = (
    *("ECDSA_sign_ex", "ECDSA_sign_setup", "ECDSA_do_sign", "ECDSA_do_sign_ex", "ECDSA_verify", "ECDSA_do_verify"),
    *("ECDH_compute_key", "EC_KEY_generate_key"),
)
# EC_KEY_METHOD slots whose functions end in a slot of the group's EC_METHOD: keygen, compute_key, sign_setup, sign_sig,
# verify_sig.
_EC_GROUP_SLOTS = (64, 72, 88, 96, 112)
# Functions that return an EC_METHOD. Those of one library share these functions, but on s390x.
_EC_METHODS = tuple(
    f"EC_{name}_method"
    for name in (
        *("GFp_mont", "GFp_nistz256", "GFp_simple", "GFp_nist", "GFp_nistp224", "GFp_nistp256", "GFp_nistp384", "GFp_nistp521"),
        "GF2m_simple",
    )
)
_SSL = ("SSL_accept", "SSL_connect", "SSL_shutdown")
_QUIC_METHODS = ("OSSL_QUIC_client_method", "OSSL_QUIC_client_thread_method", "OSSL_QUIC_server_method")  # since 3.2 and 3.5
_Resolver = Callable[[int], Sequence[int] | None]


class MethodTails:
    """The tail calls through method tables of one image."""

    def __init__(self, image: Image) -> None:
        self._image = image

    def targets(self, function: int, slot: int) -> Sequence[int] | None:
        """The targets to which the function at the address `function` jumps through the displacement `slot`; None if that isn't
        known.

        Empty where the slot is empty: the library never makes that call.
        """
        resolver = self._resolvers.get(function)
        return resolver(slot) if resolver else None

    @cached_property
    def _resolvers(self) -> dict[int, _Resolver]:
        groups = (
            (self._addresses(_RSA), self._rsa),
            (self._addresses(_EC_KEY), self._ec_key),
            ([self._ec_key_table[slot] for slot in _EC_GROUP_SLOTS if slot in self._ec_key_table], self._ec_group),
            (self._addresses(["SSL_do_handshake"]), self._handshake),
            (self._addresses(_SSL), self._ssl),
        )
        resolvers: dict[int, _Resolver] = {}
        for addresses, resolver in groups:
            for address in addresses:
                resolvers.setdefault(address, resolver)
        return resolvers

    def _addresses(self, names: Iterable[str]) -> list[int]:
        functions = (self._image.function(name) for name in names)
        return [function.address for function in functions if function]

    @cached_property
    def _ec_key_table(self) -> dict[int, int]:
        return ec_key_method(self._image)

    def _rsa(self, slot: int) -> Sequence[int] | None:
        return _slot(rsa_method(self._image), slot)

    def _ec_key(self, slot: int) -> Sequence[int] | None:
        return _slot(self._ec_key_table, slot)

    def _ec_group(self, slot: int) -> Sequence[int] | None:
        tables = (returned_address(self._image, address) for address in self._addresses(_EC_METHODS))
        targets = [self._image.pointer(table + slot) for table in tables if table is not None]
        if not targets or not all(target is None or self._image.executable(target) for target in targets):
            return None
        return [target for target in dict.fromkeys(targets) if target is not None] or None

    def _handshake(self, _: int) -> Sequence[int] | None:
        """SSL_do_handshake ends in s->handshake_func: the ssl_accept or ssl_connect of one of the library's methods."""
        tables = self._ssl_methods
        slots = handshake_slots(tables)
        return list(dict.fromkeys(table[slot] for table in tables.values() for slot in slots if slot in table)) or None

    def _ssl(self, slot: int) -> Sequence[int] | None:
        """Any of the library's methods may be the connection's; SSL_accept and SSL_connect call that of QUIC so."""
        quic = (returned_address(self._image, address) for address in self._addresses(_QUIC_METHODS))
        targets = [table[slot] for table in self._ssl_methods.values() if slot in table]
        targets += [target for table in quic if table and (target := self._image.pointer(table + slot))]
        certain = all(self._image.executable(target) for target in targets)
        return list(dict.fromkeys(targets)) if targets and certain else None

    @cached_property
    def _ssl_methods(self) -> dict[str, dict[int, int]]:
        return ssl_methods(self._image)


def _slot(table: dict[int, int], slot: int) -> Sequence[int] | None:
    """None where there is no table, or the slot lies outside it."""
    if not table or not 8 <= slot <= 112 or slot % 8:
        return None
    return [table[slot]] if slot in table else []


def handshake_slots(tables: Mapping[str, Mapping[int, int]]) -> tuple[int, ...]:
    """The offsets of ssl_accept and ssl_connect in SSL_METHOD, by the tables of ssl_methods(); empty if they can't be told.

    They are neighbours, and the function that a server's method has for ssl_connect, ssl_undefined_function, is the one that a
    client's method has for ssl_accept.
    """
    server, client = (tables.get(f"TLS_{side}_method", {}) for side in ("server", "client"))
    for accept in sorted(server):
        connect = accept + 8
        undefined = server.get(connect)
        if undefined is not None and undefined == client.get(accept) and server[accept] != undefined != client.get(connect):
            return accept, connect
    return ()
