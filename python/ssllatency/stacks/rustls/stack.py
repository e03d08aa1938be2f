# SPDX-License-Identifier: Apache-2.0
"""rustls, of which functions are timed: messages, signatures and key exchanges. Handshakes as a whole aren't followed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ssllatency import abi
from ssllatency.stacks.base import Codes, HandshakeCalls, Library, Stack
from ssllatency.stacks.rustls.operations import AWS_LC_RS, OPERATIONS, RING, RUSTLS

if TYPE_CHECKING:
    from ssllatency.code.values import FieldPath
    from ssllatency.elf.image import Image
    from ssllatency.stacks.names import Names
    from ssllatency.stacks.rustls.functions import RustlsTables


class RustlsFunctions(Stack):
    """The functions of rustls, and of ring or AWS-LC, which it does cryptography by."""

    name = "rustls"
    title = "rustls"
    number = abi.Stack.OPENSSL
    libraries = (Library(RUSTLS, ()), Library(RING, ()), Library(AWS_LC_RS, ()))
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
        """None: that rustls is in a file, Rustls says."""
        return None

    def recognises(self, image: Image) -> bool:
        """By the functions that were found."""
        return bool(self.own_libraries(image))

    def own_libraries(self, image: Image) -> tuple[str, ...]:
        """Those of which a function was found."""
        from ssllatency.stacks.rustls.aws_lc_rs import prefixes
        from ssllatency.stacks.rustls.functions import functions_in

        aws_lc = (AWS_LC_RS,) if prefixes(image) else ()
        if not self._release(image):
            return aws_lc
        found = functions_in(image)
        libraries = {operation.library for operation in OPERATIONS if operation.name in found}
        return (*((RUSTLS,) if libraries else ()), *((RING,) if RING in libraries else ()), *aws_lc)

    def tables(self, image: Image) -> RustlsTables:
        """Its functions by what tells them in this file."""
        from ssllatency.stacks.rustls.functions import RustlsTables

        return RustlsTables(image)

    def version(self, image: Image) -> str:
        """Return rustls' own by the paths of its source, or else that of AWS-LC's package."""
        from ssllatency.stacks.rustls.aws_lc_rs import release

        own = self._release(image)
        aws_lc = "" if own else release(image)
        return f"{self.title} {own}" if own else f"AWS-LC for Rust {aws_lc}" if aws_lc else ""

    def name_and_release(self, version: str) -> tuple[str, str]:
        """The name, and what follows."""
        title, _, release = version.rpartition(" ")
        return title, release

    @staticmethod
    def _release(image: Image) -> str:
        from ssllatency.stacks.rustls.implementation import release_in

        return release_in(image)

    def connection(self, image: Image) -> dict[str, int]:  # noqa: ARG002
        """None of its connections' fields is read."""
        return {}

    def labels(self, image: Image) -> dict[str, FieldPath]:  # noqa: ARG002
        """None are read."""
        return {}

    def names(self, image: Image) -> Names:  # noqa: ARG002
        """None: no reason of a failure is looked for."""
        from ssllatency.stacks.names import Names

        return Names()
