# SPDX-License-Identifier: Apache-2.0
"""The functions of an OpenSSL 3 without symbols by which errors are raised, and those of libcrypto's that are found by what
calls them where they raise none of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping

from ssllatency.code.flow import Unplannable
from ssllatency.elf.image import Range
from ssllatency.stacks.openssl.unnamed.finder import OpenSslFinder

_SETS_PEER = "EVP_PKEY_derive_set_peer_ex"
_SIGNING = ("tls_construct_cert_verify", "tls_construct_server_key_exchange")
_COOKIES = ("tls_construct_stoc_cookie", "tls_parse_ctos_cookie")
_CONFIRMING, _EXTRACT_ONLY = "ech_hkdf_extract_wrap", 1  # since OpenSSL 4.0; EVP_KDF_HKDF_MODE_EXTRACT_ONLY of openssl/kdf.h
RAISING = (
    *(_SETS_PEER, *_COOKIES, "tls_process_client_rpk", _CONFIRMING),
    *(f"EVP_{name}" for name in ("DigestSign", "DigestSignFinal", "DigestVerify", "DigestVerifyFinal")),
    *(f"EVP_PKEY_{name}" for name in ("generate", "encapsulate", "decapsulate")),
)
"""Beside those of other releases."""
NAMES = ("ERR_vset_error", "EVP_PKEY_generate", "EVP_PKEY_new_raw_private_key_ex")
"""Those worth telling of where they aren't found, beside those of other releases."""
_LIBRARY_SSL = 20  # ERR_LIB_SSL
_LIBRARIES = range(2, 128)  # ERR_LIB_*: include/openssl/err.h


class Since3:
    """Those functions, among those that are `found`."""

    def __init__(self, found: OpenSslFinder) -> None:
        self._found, self._image, self._raised = found, found.image, found.raised

    def finders(self) -> Mapping[str, Callable[[], Collection[Range]]]:
        """Return what finds each of them, in this order."""
        return {
            "ERR_set_debug": lambda: self._image.functions_at([self._raised.raises]),
            "ERR_set_error": self._set_error,
            "ERR_vset_error": self._vset_error,
            "EVP_PKEY_new_raw_private_key_ex": self._mac_key,
            "EVP_PKEY_CTX_set_hkdf_mode": self._hash_mode,
            "EVP_PKEY_derive_set_peer": lambda: self._found.passing_on(self._found.known(_SETS_PEER)),
            "EVP_DigestSign": self._digest_sign,
            "ossl_statem_fatal": self._fatal,
        }

    def refuse(self) -> None:
        """Refuse nothing: each name is a function's own."""

    def _set_error(self) -> list[Range]:
        """The one that is called most with a library's number, a reason and no text."""
        votes = Counter(
            call.target
            for function in self._raised.holding
            for call in self._raised.calls(function)
            if call.arguments[0] in _LIBRARIES and call.arguments[1] and call.arguments[2] == 0
        )
        most = max(votes.values(), default=0)  # not most_common(), which imports a module: a confined reader may not
        return self._image.functions_at([target for target, number in votes.items() if number == most])

    def _vset_error(self) -> list[Range]:
        """The function that ERR_set_error passes its first argument on to."""
        return self._image.functions_at(sorted(self._found.called_with_own(self._found.known("ERR_set_error"))))

    def _mac_key(self) -> list[Range]:
        """The function that makes the keys with which cookies are authenticated: what is made with these is no signature."""
        called = (
            call.target
            for name in _COOKIES
            if name in self._found.functions
            for call in self._raised.calls(self._found.bounds(name))
            if call.arguments[1] and self._image.text(call.arguments[1]) == "HMAC"
        )
        return self._image.functions_at(sorted(set(called)))

    def _hash_mode(self) -> list[Range]:
        """The function that says which part of HKDF a derivation is: that is no key exchange. An OpenSSL before 4.0 has no use
        for it, and elsewhere what uses it may be built into its caller."""
        confirming = (function for function in self._raised.holding if _CONFIRMING in self._raised.given(function))
        calls = (call for function in confirming for call in self._raised.calls(function))
        return self._image.functions_at(sorted({call.target for call in calls if call.arguments[1] == _EXTRACT_ONLY}))

    def _digest_sign(self) -> list[Range]:
        """The function that both of libssl's that sign ask how long a signature will be, with NULL, and then for it."""
        asked = []
        for name in _SIGNING:
            if name not in self._found.functions:
                raise Unplannable(f"it is found by {name}, which isn't found")
            calls = self._raised.calls(self._found.bounds(name))
            buffers = {call.target: {each.arguments[1] for each in calls if each.target == call.target} for call in calls}
            asked.append({target for target, given in buffers.items() if given == {0, None}})
        return self._image.functions_at(sorted(set.intersection(*asked)))

    def _fatal(self) -> list[Range]:
        """The function that raises an error of libssl's and ends the handshake: others are called with an alert, a reason and
        no text, and pass them on, but not as libssl's."""
        raises = self._found.known("ERR_vset_error")
        called = {
            call.target
            for function in self._raised.holding
            for call in self._raised.calls(function)
            if call.arguments[1] is not None and call.arguments[2] and call.arguments[3] == 0
        }
        passing = {
            each: {call.arguments[0] for call in self._raised.calls(each) if call.target == raises}
            for each in self._image.functions_at(sorted(called))
        }
        return [each for each, libraries in passing.items() if libraries == {_LIBRARY_SSL}]
