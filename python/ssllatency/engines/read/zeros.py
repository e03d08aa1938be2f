# SPDX-License-Identifier: Apache-2.0
"""Bytes of kernel maps, most of which are zeros: compared in blocks, as that takes a tenth of looking at each."""

from __future__ import annotations

BLOCK_BYTES = 512
_EMPTY = bytes(BLOCK_BYTES)


def stripped(raw: bytes) -> tuple[int, bytes]:
    """The bytes between the zeros at both ends, after where it begins; with nothing else in it, empty at the end."""
    start, end = 0, len(raw)
    while end - start >= BLOCK_BYTES and raw[end - BLOCK_BYTES : end] == _EMPTY:
        end -= BLOCK_BYTES
    while end - start >= BLOCK_BYTES and raw[start : start + BLOCK_BYTES] == _EMPTY:
        start += BLOCK_BYTES
    filled = raw[start:end].rstrip(b"\0")
    content = filled.lstrip(b"\0")
    return start + len(filled) - len(content), content
