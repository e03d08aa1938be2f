# SPDX-License-Identifier: Apache-2.0
"""The library's table of cipher suites: each row points to the suite's names, IANA's second, and has its two bytes behind."""

from __future__ import annotations

from ssllatency.elf.image import Image
from ssllatency.stacks.rows import TLS, Row, rows_naming, suite_reader, table
from ssllatency.stacks.texts import text_at

_IANA = 8  # of the name in a row, which begins with wolfSSL's own
_NUMBER = 16
_KNOWN = {b"TLS_AES_128_GCM_SHA256": 0x1301, b"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": 0xC02F}
_UNNAMED: Row = (0, "")


def suites(image: Image) -> dict[int, str]:
    """The names of cipher suites by their 32-bit identifiers, 0x0300 and TLS' number; none of another layout."""
    named = suite_reader(image, _NUMBER, _IANA)

    def read(start: int) -> Row | None:
        return named(start) or (_UNNAMED if _is_alias(image, start) else None)

    starts = [
        start
        for text, number in _KNOWN.items()
        for start in rows_naming(image, text, _IANA)
        if read(start) == (TLS | number, text.decode())
    ]
    found = table(read, starts[:1])
    return found if {TLS | number for number in _KNOWN.values()} <= found.keys() else {}


def _is_alias(image: Image, start: int) -> bool:
    """Whether the row has another name of wolfSSL's for the suite before it, and none of IANA's."""
    name = image.pointer(start + _IANA)
    return bool(text_at(image, start)) and name is not None and image.constant(name, 1) == 0
