# SPDX-License-Identifier: Apache-2.0
"""AWS-LC's libcrypto as Rust's package aws-lc-rs links it, which rustls signs and agrees on keys with.

Each name of its functions has a prefix of the package's version, aws_lc_0_47_0_, so that several may be linked into one
program; where two are, no function is taken.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from ssllatency.stacks.rustls.operations import AWS_LC, AWS_LC_SIGN

if TYPE_CHECKING:
    from ssllatency.elf.image import Function, Image
    from ssllatency.stacks.operation import Operation

_SIGN = re.compile(rf"aws_lc_(?:fips_)?\d{{1,3}}_\d{{1,3}}_\d{{1,3}}_{AWS_LC_SIGN}".encode())


@lru_cache(maxsize=1)
def prefixes(image: Image) -> tuple[str, ...]:
    """The prefixes of the versions that the image has a function of."""
    return tuple(sorted(name.removesuffix(AWS_LC_SIGN) for name in image.names_matching(_SIGN)))


def function_of(image: Image, operation: Operation) -> Function | None:
    """The operation's function; None as well where there are several versions of the library."""
    known = prefixes(image)
    return image.own_function(known[0] + operation.name.removeprefix(AWS_LC)) if len(known) == 1 else None


def release(image: Image) -> str:
    """Return the version of the package, as in the prefix; "" where there are several."""
    known = prefixes(image)
    return ".".join(re.findall(r"\d+", known[0])) if len(known) == 1 else ""
