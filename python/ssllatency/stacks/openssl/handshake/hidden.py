# SPDX-License-Identifier: Apache-2.0
"""Functions that libssl doesn't export, found by what they call, or by name where the file has their symbols."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ssllatency.code.bodies import Bodies
from ssllatency.code.calls import calls_to
from ssllatency.code.evaluate import followed
from ssllatency.code.flow import Unplannable
from ssllatency.code.values import SymbolicAddress
from ssllatency.elf.image import Image
from ssllatency.stacks.openssl.accessors import ssl_offsets
from ssllatency.stacks.openssl.handshake.libssl_code import LibsslCode

NAMES = frozenset(
    (
        *("EVP_DecryptFinal", "EVP_DecryptUpdate", "OPENSSL_LH_retrieve", "SSL_CTX_add_session", "CRYPTO_THREAD_read_lock"),
        *("ERR_vset_error", "ERR_put_error"),
    )
)
_SSL = SymbolicAddress("argument", 0)
_MSG_FLOW_ERROR = 1  # of OSSL_STATEM's state, ssl/statem/statem_local.h
_MOST_CALLED = 3  # how many of the functions that raise errors are examined


class Hidden:
    """Finds these functions by the call sites of NAMES. Each method returns a function's address, or raises Unplannable where
    that is uncertain."""

    def __init__(self, image: Image, bodies: Bodies, code: LibsslCode, sites: Mapping[str, list[int]]) -> None:
        self._image = image
        self._bodies = bodies
        self._code = code
        self._sites = sites

    def tls_decrypt_ticket(self) -> int:
        """The function that decrypts a session ticket: no other function in libssl decrypts in this way."""
        return self._named("tls_decrypt_ticket") or self._only("EVP_DecryptFinal", "EVP_DecryptUpdate")

    def lookup_sess_in_cache(self) -> int:
        """The function that looks up a session, in the cache and by the application's callback, and caches what the callback
        found."""
        name = self._named("lookup_sess_in_cache")
        return name or self._only("OPENSSL_LH_retrieve", "SSL_CTX_add_session", "CRYPTO_THREAD_read_lock")

    def ossl_statem_fatal(self) -> int:
        """The function that raises an error and ends the handshake with an alert: it sets the error state."""
        named = self._named("ossl_statem_fatal")
        if named:
            return named
        state = ssl_offsets(self._image).get("state")
        if state is None:
            raise Unplannable("the handshake's state can't be found in SSL, so it can't be told what sets it")
        raising = self._raising()
        starts = [start for start in raising if self._breaks_off(start, state, raising)]
        return _single(starts, "set the handshake's state to that of an error")

    def _named(self, name: str) -> int | None:
        function = self._image.function(name)
        return function.address if function else None

    def _only(self, *names: str) -> int:
        callers = [self._bodies.functions(self._sites[name]) for name in names]
        functions = [start for start in set.intersection(*callers) if self._code.holds(start)]
        return _single([start for start in functions if not self._image.is_part(start)], f"call {' and '.join(names)}")

    def _raising(self) -> list[int]:
        """Functions that forward an error: the most called of those that call libcrypto's function for raising errors."""
        sites = self._sites["ERR_vset_error"] or self._sites["ERR_put_error"]
        starts = {start for start in self._bodies.functions(sites) if self._code.holds(start)}
        called = calls_to(self._image, starts, self._code.within)
        return sorted(starts, key=lambda start: len(called[start]), reverse=True)[:_MOST_CALLED]

    def _breaks_off(self, start: int, state: int, others: Collection[int]) -> bool:
        """Whether the function, or one but `others` that it passes the SSL on to, sets the state to that of an error."""
        own = followed(self._image, start, {"rdi": _SSL})
        targets = {call.target for call in own.calls if call.arguments[0] == _SSL and isinstance(call.target, int)}
        targets = {target for target in targets if target not in others and self._image.executable(target)}
        passed = [followed(self._image, target, {"rdi": _SSL}) for target in targets]
        stores = [store for evaluation in (own, *passed) for store in evaluation.stores]
        return (SymbolicAddress("argument", state), _MSG_FLOW_ERROR) in stores


def _single(starts: list[int], description: str) -> int:
    if len(starts) != 1:
        raise Unplannable(f"{len(starts) or 'no'} functions in libssl {description}, where one is expected")
    return starts[0]
