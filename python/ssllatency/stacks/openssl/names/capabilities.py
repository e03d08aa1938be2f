# SPDX-License-Identifier: Apache-2.0
"""Names of groups and signature schemes that libssl asks libcrypto for.

OpenSSL 3's default provider tells them as capabilities: an array of OSSL_PARAM {key, type, data, size, …} for each. In 1.1.1
libssl has a table of groups by IANA number, each with the NID of its curve, and libcrypto's table of objects names NIDs.
Layouts: openssl/core.h and crypto/asn1.h; TLS_GROUP_INFO in 1.1.1's ssl/ssl_local.h.
"""

from __future__ import annotations

import struct

from ssllatency.elf.image import ElfError, Image
from ssllatency.stacks.texts import pointers_to_text, readable, text_at

MAX_PARAMETERS = 24
MAX_GROUPS = 64
MAX_OBJECTS = 4096
_PARAMETER_SIZE = 40
_OBJECT_SIZE = 40
_GROUP = struct.Struct("<IIHxx")
# sect163k1, sect163r1 and sect163r2, the groups 1 to 3: NID, security bits, characteristic 2.
_FIRST_GROUPS = b"".join(_GROUP.pack(nid, 80, 1) for nid in (721, 722, 723))
_NIDS, _SECURITY_BITS, _KINDS = range(1, MAX_OBJECTS), range(56, 513), range(4)


def groups(image: Image) -> dict[int, str]:
    """The name of a group by its IANA number, as the default provider offers it."""
    return _capabilities(image, "tls-group-name", "tls-group-id")


def provided_signatures(image: Image) -> dict[int, str]:
    """The name of a signature scheme by its code point, of those that the default provider brings (since OpenSSL 3.5)."""
    return _capabilities(image, "tls-sigalg-iana-name", "tls-sigalg-code-point")


def _capabilities(image: Image, name_key: str, number_key: str) -> dict[int, str]:
    """A number that has several names keeps the first, as it does in libssl."""
    names: dict[int, str] = {}
    for place in pointers_to_text(image, name_key.encode()):
        parameters = _parameters(image, place)
        name, number = (parameters.get(key) for key in (name_key, number_key))
        code = image.constant(number, 4) if number is not None else None
        text = readable(image, name) if name is not None else ""
        if code and text:
            names.setdefault(code, text)
    return names


def _parameters(image: Image, array: int) -> dict[str, int | None]:
    """The address of the data of each parameter from `array` on, by its key."""
    parameters: dict[str, int | None] = {}
    for entry in range(array, array + MAX_PARAMETERS * _PARAMETER_SIZE, _PARAMETER_SIZE):
        key = text_at(image, entry)
        if not key:
            break
        parameters.setdefault(key, image.pointer(entry + 16))
    return parameters


def curves(image: Image) -> dict[int, int]:
    """The NID of a group's curve by the group's IANA number, from the table of OpenSSL 1.1.1's libssl; else empty."""
    for address, piece in image.pieces(len(_FIRST_GROUPS)):
        at = piece.find(_FIRST_GROUPS)
        if at >= 0:
            return _curves(image, address + at)
    return {}


def _curves(image: Image, table: int) -> dict[int, int]:
    """The table has no terminator: it ends with the first row that isn't plausible."""
    nids: dict[int, int] = {}
    for number in range(1, MAX_GROUPS):
        try:
            nid, bits, kind = _GROUP.unpack(image.code(table + (number - 1) * _GROUP.size, _GROUP.size))
        except (ElfError, struct.error):
            break
        if nid not in _NIDS or bits not in _SECURITY_BITS or kind not in _KINDS:
            break
        nids[number] = nid
    return nids


def objects(image: Image) -> dict[int, str]:
    """The short name of an object by its NID, from libcrypto's table of ASN1_OBJECT, in which it is the index."""
    for table in pointers_to_text(image, b"UNDEF"):
        if text_at(image, table + 8) == "undefined":
            entries = range(table + _OBJECT_SIZE, table + MAX_OBJECTS * _OBJECT_SIZE, _OBJECT_SIZE)
            nids = {nid: text_at(image, entry) for nid, entry in enumerate(entries, 1) if image.constant(entry + 16, 4) == nid}
            return {nid: name for nid, name in nids.items() if name}
    return {}
