# SPDX-License-Identifier: Apache-2.0
"""The address that a function returns, for functions that always return the same one, on either machine."""

from __future__ import annotations

from ssllatency.code.evaluate import returned
from ssllatency.code.values import Value
from ssllatency.elf import aarch64
from ssllatency.elf.image import Image

_AARCH64_SIZE = 16


def returned_address(image: Image, address: int, *, or_null: bool = False, **arguments: Value) -> int | None:
    """The one address that the function at `address` returns, given what registers hold; None if that can't be told. `or_null`:
    it may return NULL as well."""
    if image.machine == "aarch64" and image.executable(address):
        address_returned = aarch64.returned_address(image.code(address, _AARCH64_SIZE), address)
        if address_returned is not None:
            return address_returned
    values = set(returned(image, address, **arguments)) - ({0} if or_null else set())
    value = values.pop() if len(values) == 1 else None
    return value if isinstance(value, int) and value else None
