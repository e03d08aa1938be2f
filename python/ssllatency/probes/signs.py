# SPDX-License-Identifier: Apache-2.0
"""The signs by which a file is recognised as one that may have TLS in it, of whatever stack or other implementation."""

from __future__ import annotations

from ssllatency.elf.quick_look import Signs
from ssllatency.stacks.registry import LIBRARIES, STACKS, UNTRACED

_NAMES = (name for library in LIBRARIES.values() for name in (*library.functions, library.always) if name)
_TEXTS = (text for implementation in (*STACKS, *UNTRACED) for text in implementation.texts)
# A file without any of these contains no TLS. A file with some may.
QUICK = Signs(tuple(name.encode() for name in _NAMES), tuple(_TEXTS))
