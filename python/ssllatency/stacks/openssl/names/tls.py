# SPDX-License-Identifier: Apache-2.0
"""Names of TLS's own codes, from libssl: alerts, states of the handshake, ciphers and signature schemes.

Alerts and states are what OpenSSL's functions return for each number, found by following their code; ciphers and signatures are
rows of tables. Layouts: SSL_CIPHER in ssl/ssl_local.h, SIGALG_LOOKUP in ssl/ssl_local.h, the same from 1.1.1 to 3.6 in what is
read here. What isn't found is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from ssllatency.code.evaluate import returned_in_cases
from ssllatency.code.values import Assumptions, SymbolicAddress
from ssllatency.elf.image import Image
from ssllatency.stacks.openssl.accessors import field_returned
from ssllatency.stacks.openssl.unnamed.found import known_of
from ssllatency.stacks.openssl.unnamed.labels import CIPHER_NAMES
from ssllatency.stacks.rows import Row, rows_around, table
from ssllatency.stacks.texts import pointers_to_text, readable, text_at

ALERTS = range(256)
STATES = range(81)
_NO_STATE = 0x7FFF
# Ciphers that are in every version, one for each table; and two rows of the table of signature schemes that follow each other.
_CIPHERS = (b"TLS_AES_128_GCM_SHA256", b"TLS_RSA_WITH_AES_128_CBC_SHA", b"TLS_EMPTY_RENEGOTIATION_INFO_SCSV")
_SIGNATURES = (b"ecdsa_secp256r1_sha256", 0x0403), (b"ecdsa_secp384r1_sha384", 0x0503)
# Where a scheme's code point lies. Since OpenSSL 3.5 another name lies between the name and it.
_CODE_OFFSETS = (8, 16)
_CODE_POINTS, _NIDS, _INDEXES, _NO_INDEX = range(1 << 16), range(1 << 16), range(64), 0xFFFFFFFF
_TLS_CIPHER = 3
_STRIDES = range(32, 160, 8)


def alerts(image: Image) -> dict[int, str]:
    """The description of an alert by its number, as SSL_alert_desc_string_long gives it."""
    return _by_number(image, "SSL_alert_desc_string_long", ALERTS, 255, lambda number: Assumptions({"rdi": number}))


def states(image: Image) -> dict[int, str]:
    """The name of a handshake's state by OSSL_HANDSHAKE_STATE, as SSL_state_string_long gives it."""
    path = field_returned(image, "SSL_get_state", 1)

    def case(number: int) -> Assumptions:
        fields = {path: number} if path else {}
        return Assumptions({"rdi": SymbolicAddress("argument", 0)}, fields, {"SSL_get_state": number})

    return _by_number(image, "SSL_state_string_long", STATES, _NO_STATE, case)


def _by_number(image: Image, function: str, numbers: range, unnamed: int, case: Callable[[int], Assumptions]) -> dict[int, str]:
    """The one text that `function` returns for each number, unless it is the text for `unnamed`, a number without a name. A
    text that can be returned for every number (as for an SSL in error) is no name, nor is one of several possible texts."""
    accessor = image.function(function)
    if accessor is None:
        return {}
    other, *results = ({*values} for values in returned_in_cases(image, accessor.address, map(case, [unnamed, *numbers])))
    always = other.intersection(*results) - {None}
    names = {number: values - always for number, values in zip(numbers, results, strict=True)}
    alone = {number: next(iter(values)) for number, values in names.items() if len(values) == 1 and not values & other}
    texts = {number: readable(image, value) for number, value in alone.items() if isinstance(value, int)}
    return {number: text for number, text in texts.items() if text}


def ciphers(image: Image) -> dict[int, str]:
    """The name of a cipher by its 32-bit identifier, as SSL_CIPHER_get_name gives it."""
    shown = (field_returned(image, f"SSL_CIPHER_{name}", 1) for name in ("get_id", "get_name", "standard_name"))
    offsets = [path[0] for path in shown if path]
    if len(offsets) != 3 and (found := known_of(image).labels.get("cipher")):
        offsets = [found.offsets[-1], *CIPHER_NAMES]
    if len(offsets) != 3:
        return {}
    number, name, standard = offsets

    def row(address: int) -> Row | None:
        """Ciphers that are in no RFC have no standard name."""
        code, text = image.constant(address + number, 4), text_at(image, address + name)
        named = text and (text_at(image, address + standard) or image.constant(address + standard, 8) == 0)
        return (code, text) if code is not None and code >> 24 == _TLS_CIPHER and named else None

    return table(row, (place - standard for text in _CIPHERS for place in pointers_to_text(image, text)))


def signatures(image: Image) -> dict[int, str]:
    """The name of a signature scheme by its code point, from libssl's table of those that it knows itself."""
    first, second = ([(place, code) for place in pointers_to_text(image, text)] for text, code in _SIGNATURES)
    for (place, code), (next_place, next_code), offset in product(first, second, _CODE_OFFSETS):
        codes = image.constant(place + offset, 4), image.constant(next_place + offset, 4)
        if next_place - place in _STRIDES and codes == (code, next_code):
            rows = rows_around(lambda address: _signature_row(image, address, offset), place, next_place - place)  # noqa: B023
            return {code: name for code, name in rows if name}
    return {}


def _signature_row(image: Image, address: int, offset: int) -> Row | None:
    """A row may have no name. After the code point come the NIDs and table indexes of the hash and of the signature."""
    code, name = image.constant(address + offset, 4), text_at(image, address)
    nids = [image.constant(address + offset + place, 4) for place in (4, 12)]
    indexes = [image.constant(address + offset + place, 4) for place in (8, 16)]
    valid = all(number in _NIDS for number in nids) and all(number in (*_INDEXES, _NO_INDEX) for number in indexes)
    named = name or image.constant(address, 8) == 0
    return (code, name) if code and code in _CODE_POINTS and valid and named else None
