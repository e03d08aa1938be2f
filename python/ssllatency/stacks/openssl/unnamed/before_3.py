# SPDX-License-Identifier: Apache-2.0
"""The functions of libcrypto's that an OpenSSL 1.1.1 without symbols makes a handshake's phases with and that raise no errors:
found by what those call that do, and by the tables of methods that they go on through.

Without what tells that an operation isn't a phase, as a cookie's authentication or the derivation of keys, it isn't taken.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ssllatency.code.evaluate import followed_in
from ssllatency.code.flow import Unplannable
from ssllatency.code.values import Assumptions, LoadedField, SymbolicAddress
from ssllatency.elf.image import Range
from ssllatency.stacks.openssl.unnamed.finder import CONNECTION, OpenSslFinder
from ssllatency.stacks.openssl.unnamed.raised_numbers import RaisedNumbers

RAISING = (
    *("EVP_PKEY_new_raw_private_key", "tls_process_key_exchange", "tls_process_cke_rsa"),
    *("tls1_PRF", "tls13_hkdf_expand", "tls13_generate_secret"),
)
"""Beside those of OpenSSL 3."""
NAMES = ("ERR_put_error", "EVP_PKEY_keygen", "EVP_PKEY_new_raw_private_key", "EVP_PKEY_CTX_new_id", "RSA_private_decrypt")
"""Those worth telling of where they aren't found, beside those of OpenSSL 3."""
_SIGNING = ("tls_construct_cert_verify", "tls_construct_server_key_exchange")
_CHECKING = ("tls_process_cert_verify", "tls_process_key_exchange")
# What makes a key or its context is called with, a NID (openssl/obj_mac.h): of ways to derive keys, and of HMAC for cookies.
_DERIVING = {"tls1_PRF": 1021, "tls13_hkdf_expand": 1036, "tls13_generate_secret": 1036}
_COOKIES = {"tls_construct_stoc_cookie": 855, "tls_parse_ctos_cookie": 855}
_PRIVATE_DECRYPT = 32  # the slot of RSA_METHOD
_MOST_CALLED = 1024  # functions that are looked into: in real files forty
_BUFFER, _SIZE = SymbolicAddress("buffer", 0), SymbolicAddress("size", 0)
_NEEDED = {"EVP_PKEY_derive": "EVP_PKEY_CTX_new_id", "EVP_DigestSign": "EVP_PKEY_new_raw_private_key"}


class Before3:
    """Those functions, among those that are `found`."""

    def __init__(self, found: OpenSslFinder, raised: RaisedNumbers) -> None:
        self._found, self._raised = found, raised

    def finders(self) -> Mapping[str, Callable[[], Collection[Range]]]:
        """Return what finds each of them, in this order."""
        return {
            "ERR_put_error": lambda: self._functions([self._raised.raises]),
            "ossl_statem_fatal": lambda: self._functions([self._raised.fatal]),
            "EVP_PKEY_new_raw_private_key": lambda: self._made_of(_COOKIES),
            "EVP_PKEY_CTX_new_id": lambda: self._made_of(_DERIVING),
            "EVP_DigestSign": lambda: self._at_once(_SIGNING),
            "EVP_DigestSignFinal": lambda: self._goes_on("EVP_DigestSign"),
            "EVP_DigestVerify": lambda: self._at_once(_CHECKING),
            "EVP_DigestVerifyFinal": lambda: self._goes_on("EVP_DigestVerify"),
            "RSA_private_decrypt": self._decrypts,
        }

    def refuse(self) -> None:
        """Refuse the operations of which it isn't told where they are no phase."""
        for name, needed in _NEEDED.items():
            if name in self._found.functions and needed not in self._found.functions:
                self._found.refuse(name, f"it is told from other uses by {needed}, which isn't found")

    def _functions(self, addresses: Collection[int]) -> list[Range]:
        if len(addresses) > _MOST_CALLED:
            raise Unplannable("too many functions are called")
        return self._found.image.functions_at(sorted(addresses))

    def _called(self, name: str) -> set[int]:
        """The targets of the functions that give this name."""
        return {call.target for function in self._raised.giving(name) for call in self._raised.calls(function)}

    def _made_of(self, numbers: Mapping[str, int]) -> list[Range]:
        """The function that all that give these names call with their number, and no engine."""
        made = [
            {
                call.target
                for function in self._raised.giving(name)
                for call in self._raised.calls(function)
                if call.arguments[:2] == (number, 0)
            }
            for name, number in numbers.items()
        ]
        return self._functions(set.intersection(*made))

    def _at_once(self, names: Collection[str]) -> list[Range]:
        """The function called by both that hands its context on through the table of methods of the context's key."""
        common = set.intersection(*map(self._called, names))
        return [each for each in self._functions(common) if self._by_method(each[0])]

    def _by_method(self, address: int) -> bool:
        calls = self._found.follow(address).calls
        through = {
            call.target.path for call in calls if isinstance(call.target, LoadedField) and call.arguments[0] == CONNECTION
        }
        return len(through) == 1 and len(through.pop()) == 3

    def _goes_on(self, name: str) -> list[Range]:
        """The function that this one hands its context, a buffer and its size on to."""
        calls = self._found.follow(self._found.known(name), {"rsi": _BUFFER, "rdx": _SIZE}).calls
        own = (CONNECTION, _BUFFER, _SIZE)
        return self._functions({call.target for call in calls if call.arguments[:3] == own and isinstance(call.target, int)})

    def _decrypts(self) -> list[Range]:
        """The function of what decrypts a premaster secret that only goes on through the table of the key's methods."""
        called = self._functions(self._called("tls_process_cke_rsa"))
        return [each for each in called if self._by_key(each[0])]

    def _by_key(self, address: int) -> bool:
        calls = followed_in(self._found.image, address, Assumptions({"rcx": CONNECTION})).calls
        targets = {call.target for call in calls}
        target = targets.pop() if len(targets) == 1 else None
        return isinstance(target, LoadedField) and len(target.path) == 2 and target.path[1] == _PRIVATE_DECRYPT
