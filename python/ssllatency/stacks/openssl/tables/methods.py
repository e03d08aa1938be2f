# SPDX-License-Identifier: Apache-2.0
"""The method tables of OpenSSL: RSA_METHOD, EC_KEY_METHOD and SSL_METHOD, as the image's data holds them before it runs.

An exported function returns the address of each table, and relocations (or, in a fixed program, the words themselves) lead from
the table to static functions that have no symbol. What an engine puts in place at run time isn't seen here.
"""

from __future__ import annotations

from collections.abc import Iterable

from ssllatency.code.returns import returned_address
from ssllatency.elf.image import Image

# Byte offsets of the pointers to functions. crypto/rsa/rsa_local.h and crypto/ec/ec_local.h, the same from 1.1.1 to 3.6: flags
# and app_data lie between the RSA method's finish and rsa_sign. ssl/ssl_local.h: ssl_new follows version, flags and mask.
_RSA_SLOTS = (*range(8, 72, 8), *range(88, 120, 8))
_EC_KEY_SLOTS = range(16, 120, 8)
_SSL_SLOTS = range(16, 144, 8)
_SSL_PROTOCOLS = ("TLS", "TLSv1", "TLSv1_1", "TLSv1_2", "TLSv1_3", "SSLv3", "DTLS", "DTLSv1", "DTLSv1_2")
_SSL_SIDES = ("method", "server_method", "client_method")


def rsa_method(image: Image) -> dict[int, int]:
    """The functions of the default RSA_METHOD: byte offset of the slot to address. Empty where the image has none."""
    return _table(image, "RSA_PKCS1_OpenSSL", _RSA_SLOTS)


def ec_key_method(image: Image) -> dict[int, int]:
    """The functions of the default EC_KEY_METHOD: byte offset of the slot to address. Empty where the image has none."""
    return _table(image, "EC_KEY_OpenSSL", _EC_KEY_SLOTS)


def ssl_methods(image: Image) -> dict[str, dict[int, int]]:
    """The functions of each SSL_METHOD, by the name of the function that returns it ("TLS_server_method"); as `rsa_method`."""
    names = [f"{protocol}_{side}" for protocol in _SSL_PROTOCOLS for side in _SSL_SIDES]
    tables = {name: _table(image, name, _SSL_SLOTS) for name in names}
    return {name: table for name, table in tables.items() if table}


def _table(image: Image, function: str, slots: Iterable[int]) -> dict[int, int]:
    accessor = image.function(function)
    table = returned_address(image, accessor.address) if accessor else None
    if table is None:
        return {}
    targets = ((offset, image.pointer(table + offset)) for offset in slots)
    return {offset: target for offset, target in targets if target is not None and image.executable(target)}
