# SPDX-License-Identifier: Apache-2.0
"""AWS-LC's libcrypto as Rust's package aws-lc-rs links it, which rustls signs and agrees on keys with.

Its functions return 1 where they succeed, as libcrypto's. Each name has a prefix of the package's version, aws_lc_0_47_0_, so
that several may be linked into one program; where two are, no function is taken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from ssllatency import abi
from ssllatency.abi import Convention
from ssllatency.stacks.base import Codes, HandshakeCalls, Library, Stack
from ssllatency.stacks.operation import Operation

if TYPE_CHECKING:
    from ssllatency.code.values import FieldPath
    from ssllatency.elf.image import Function, Image
    from ssllatency.stacks.names import Names

LIBRARY = "aws-lc-rs"
NAMED = "aws_lc_"
_SIGN = "EVP_DigestSign"
_PREFIX = re.compile(r"aws_lc_(?:fips_)?\d{1,3}_\d{1,3}_\d{1,3}_")


def _key(function: str, skip_null: int | None = None) -> Operation:
    """A NULL buffer asks for the size and is not counted."""
    return Operation(f"{NAMED}{function}", LIBRARY, Convention.ONE, async_job=False, skip_null=skip_null)


OPERATIONS: tuple[Operation, ...] = (
    # Signatures by any key, and what they are made by, which tells the key's kind.
    _key(_SIGN, 1),
    _key("RSA_sign"),
    _key("RSA_sign_pss_mgf1"),
    _key("ECDSA_sign"),
    # The peer's signatures, also those of its certificates.
    _key("EVP_DigestVerify"),
    # Key exchange. Of a key encapsulation, the server has the former and the client the latter.
    _key("EVP_PKEY_keygen"),
    _key("EVP_PKEY_derive", 1),
    _key("EVP_PKEY_encapsulate", 1),
    _key("EVP_PKEY_decapsulate", 1),
)


@lru_cache(maxsize=1)
def _prefixes(image: Image) -> tuple[str, ...]:
    """The prefixes of the versions that the image has a function of."""
    names = (name.removesuffix(_SIGN) for name in image.names_ending_in(f"_{_SIGN}"))
    return tuple(sorted({prefix for prefix in names if _PREFIX.fullmatch(prefix)}))


@dataclass(frozen=True)
class PrefixedNames:
    """The functions of one image by their names with the prefix."""

    image: Image

    def find(self, operation: Operation) -> Function | None:
        """None as well where there are several versions of the library."""
        prefixes = _prefixes(self.image)
        if len(prefixes) != 1:
            return None
        return self.image.own_function(prefixes[0] + operation.name.removeprefix(NAMED))

    def may_hold(self, operation: Operation) -> bool:  # noqa: ARG002
        """No: the linker leaves out what isn't called, and the symbols name all others."""
        return False

    def obstacle(self, operation: Operation) -> str:  # noqa: ARG002
        """Say that there are several."""
        return "several versions of AWS-LC are in the file" if len(_prefixes(self.image)) > 1 else ""


class AwsLcForRust(Stack):
    """The cryptography of rustls, where the program has its symbols; it makes no handshakes itself."""

    name = "aws-lc-rs"
    title = "AWS-LC for Rust"
    number = abi.Stack.OPENSSL
    libraries = (Library(LIBRARY, ()),)
    operations = OPERATIONS
    marks = {}  # noqa: RUF012
    texts = ()
    states_version = True
    codes = Codes(reading=0, writing=0, reasons={})
    callees = ()
    transport = ()
    handshake_calls = HandshakeCalls(shakes="")
    inlines_handshake = False
    offers = {}  # noqa: RUF012
    scripted = False
    has_symbols = False

    def identify(self, versions: Mapping[str, str]) -> tuple[str, str] | None:  # noqa: ARG002
        """None: it does no TLS alone."""
        return None

    def recognises(self, image: Image) -> bool:
        """By the names of its functions."""
        return bool(self.own_libraries(image))

    def own_libraries(self, image: Image) -> tuple[str, ...]:
        """Itself, where symbols name its functions."""
        return (LIBRARY,) if _prefixes(image) else ()

    def tables(self, image: Image) -> PrefixedNames:
        """Its functions by the names that they have in this version."""
        return PrefixedNames(image)

    def version(self, image: Image) -> str:
        """Return the version of the package, as in the prefix; "" where there are several."""
        prefixes = _prefixes(image)
        release = ".".join(re.findall(r"\d+", prefixes[0])) if len(prefixes) == 1 else ""
        return f"{self.title} {release}" if release else ""

    def name_and_release(self, version: str) -> tuple[str, str]:
        """The name, and what follows."""
        return self.title, version.removeprefix(self.title).lstrip()

    def connection(self, image: Image) -> dict[str, int]:  # noqa: ARG002
        """It has no connections."""
        return {}

    def labels(self, image: Image) -> dict[str, FieldPath]:  # noqa: ARG002
        """It has none."""
        return {}

    def names(self, image: Image) -> Names:  # noqa: ARG002
        """None: no reason of a failure is looked for."""
        from ssllatency.stacks.names import Names

        return Names()
