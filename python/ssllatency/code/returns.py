# SPDX-License-Identifier: Apache-2.0
"""Which address a function returns, for functions that return always the same one, on either machine."""

from __future__ import annotations

from ssllatency.code.evaluate import returned
from ssllatency.code.values import Value
from ssllatency.elf import aarch64
from ssllatency.elf.image import Image

_AARCH64_SIZE = 16


def returned_address(image: Image, address: int, **arguments: Value) -> int | None:
    """The one address that the function at `address` returns, given what registers hold; None if that can't be told."""
    if image.machine == "aarch64" and image.executable(address):
        found = aarch64.returned_address(image.code(address, _AARCH64_SIZE), address)
        if found is not None:
            return found
    values = set(returned(image, address, **arguments))
    value = values.pop() if len(values) == 1 else None
    return value if isinstance(value, int) and value else None
