# SPDX-License-Identifier: Apache-2.0
"""The functions by which libcrypto's queue of errors is filled."""

from __future__ import annotations

from ssllatency.code.calls import calls_of
from ssllatency.elf.image import Image
from ssllatency.stacks.phases import ErrorFunction, ErrorKind

OWN_ERRORS = "ERR_vset_error"
"""What libssl's functions that break a handshake off raise their error by."""


def error_functions(image: Image) -> list[ErrorFunction]:
    """Those of this libcrypto, by what it has: since OpenSSL 3.0 ERR_vset_error(library, reason, ...), before it
    ERR_put_error(library, function, reason, ...)."""
    if image.function("ERR_vset_error"):
        names = ("ERR_vset_error", "ERR_set_error") if _raises_apart(image) else ("ERR_vset_error",)
        return [ErrorFunction(ErrorKind.RAISE, name) for name in names]
    return [ErrorFunction(ErrorKind.RAISE_1_1, "ERR_put_error")]


def _raises_apart(image: Image) -> bool:
    """Whether ERR_set_error, with the same first arguments, has the other one built in instead of calling it."""
    function = image.function("ERR_set_error")
    bounds = image.function_bounds(function.address) if function else None
    return bounds is not None and not calls_of(image, ["ERR_vset_error"], bounds)["ERR_vset_error"]
