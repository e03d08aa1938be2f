# SPDX-License-Identifier: Apache-2.0
"""The C library of this process. `ctypes.CDLL(None)` makes a class each time that refers to itself: what calls it many times a
minute would grow until Python looks for garbage, which export has it do seldom."""

from __future__ import annotations

import ctypes
from functools import cache


@cache
def c_library() -> ctypes.CDLL:
    """The library, the same each time, so nobody may change what its functions take or return. Errors are in
    ctypes.get_errno()."""
    return ctypes.CDLL(None, use_errno=True)
