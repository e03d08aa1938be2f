# SPDX-License-Identifier: Apache-2.0
"""The library's table of cipher suites: each entry points to the suite's names, IANA's second, and has its two bytes behind."""

from __future__ import annotations

from collections.abc import Iterator

from ssllatency.elf.image import Image
from ssllatency.stacks.openssl.names.texts import pointers_to_text, text_at

_IANA = 8  # of the name in an entry, which begins with wolfSSL's own
_NUMBER = 16
_ENTRY = 24
_KNOWN = {b"TLS_AES_128_GCM_SHA256": 0x1301, b"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": 0xC02F}
_MOST_SUITES = 1024
_MOST_PLACES = 32  # pointers to a text
_TLS = 0x03000000  # in the identifiers of ciphers, above TLS' number


def suites(image: Image) -> dict[int, str]:
    """The names of cipher suites by their 32-bit identifiers, 0x0300 and TLS' number; none of another layout."""
    starts = [start for text, number in _KNOWN.items() for start in _starts(image, text, number)]
    return dict(_around(image, starts[0])) if len(starts) == len(_KNOWN) else {}


def _starts(image: Image, text: bytes, number: int) -> list[int]:
    starts = [place - _IANA for place in pointers_to_text(image, text, _MOST_PLACES)]
    return [start for start in starts if _number(image, start) == number][:1]


def _around(image: Image, start: int) -> Iterator[tuple[int, str]]:
    """The entries of the table that this one is in."""
    for step in (_ENTRY, -_ENTRY):
        for address in range(start, start + step * _MOST_SUITES, step):
            text, number = text_at(image, address + _IANA), _number(image, address)
            if number is None or not text_at(image, address):
                break
            if text.startswith(("TLS_", "SSL_")):
                yield _TLS | number, text


def _number(image: Image, start: int) -> int | None:
    code = image.constant(start + _NUMBER, 2)
    return None if code is None else int.from_bytes(code.to_bytes(2, "little"), "big")
