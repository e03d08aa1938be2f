# SPDX-License-Identifier: Apache-2.0
"""The C library's heap, of which libbpf takes several MiB while it loads programs, and no longer needs them once it has."""

from __future__ import annotations

import ctypes


def trim() -> None:
    """Gives the kernel back what is free in the heap, where the C library can: musl's has no malloc_trim(3)."""
    trim_heap = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim_heap:
        trim_heap(ctypes.c_size_t(0))
