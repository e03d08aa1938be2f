# SPDX-License-Identifier: Apache-2.0
"""The offset of the TLS code point in libssl's record of a signature algorithm, which no accessor shows.

The accessors show where such a record has the numbers of its hash and of its kind of key, and the library has a table of these
records, each with its name in TLS, whose code point and numbers are known. So the offset is read from the table, provided that
all examined records agree.
"""

from __future__ import annotations

from collections.abc import Iterator

from ssllatency.elf.image import Image

# Name and code point: IANA, TLS SignatureScheme. Numbers of hash and key: OpenSSL's obj_mac.h, the same in all versions.
_SHA256, _SHA384, _SHA512, _RSA, _RSA_PSS, _EC = 672, 673, 674, 6, 912, 408
_KNOWN = {
    b"ecdsa_secp256r1_sha256": (0x0403, _SHA256, _EC),
    b"ecdsa_secp384r1_sha384": (0x0503, _SHA384, _EC),
    b"rsa_pss_rsae_sha512": (0x0806, _SHA512, _RSA_PSS),
    b"rsa_pkcs1_sha256": (0x0401, _SHA256, _RSA),
}
_MAX_RECORD = 64


def code_point_offset(image: Image, hash_offset: int | None, key_offset: int) -> int | None:
    """The byte offset of the 16-bit code point in a record; None where the table isn't found or doesn't agree. Where the number
    of the hash lies needn't be known.

    ElfError for damaged relocations.
    """
    places = [_offsets(image, name, hash_offset, key_offset) for name in _KNOWN]
    common = set.intersection(*places)
    return common.pop() if len(common) == 1 else None


def _offsets(image: Image, name: bytes, hash_offset: int | None, key_offset: int) -> set[int]:
    """The offsets at which a record with this name and its numbers has its code point."""
    code_point, hash_number, key_number = _KNOWN[name]
    records = (
        start
        for start in _starts(image, name)
        if image.constant(start + key_offset, 4) == key_number
        and (hash_offset is None or image.constant(start + hash_offset, 4) == hash_number)
    )
    return {
        offset for start in records for offset in range(0, _MAX_RECORD, 2) if image.constant(start + offset, 2) == code_point
    }


def _starts(image: Image, name: bytes) -> Iterator[int]:
    """The addresses at which a record may start that points to `name`."""
    for text in image.find_string(name):
        for place in image.pointers_to(text):
            yield from range(place, place - _MAX_RECORD, -8)
