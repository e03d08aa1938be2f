# SPDX-License-Identifier: Apache-2.0
"""Where in OpenSSL's structures the labels of a handshake lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ssllatency.elf.accessors import ssl_offsets
from ssllatency.elf.image import Image

_SIZES = {"version": 4, "reused": 4, "server": 4}


@dataclass(frozen=True)
class FieldPath:
    """A field of `size` bytes: `offsets` (1 to 4) start at the SSL *, and each but the last leads to a pointer to follow."""

    offsets: tuple[int, ...]
    size: int


def label_paths(image: Image) -> Mapping[str, FieldPath]:
    """The fields by name, as far as the library's own accessors show them."""
    offsets = ssl_offsets(image)
    return {name: FieldPath((offsets[name],), size) for name, size in _SIZES.items() if name in offsets}
