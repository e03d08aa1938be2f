# SPDX-License-Identifier: Apache-2.0
"""OpenSSL as a stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ssllatency import abi
from ssllatency.abi import Reason
from ssllatency.stacks.base import Codes, Library, Mark, Stack
from ssllatency.stacks.openssl.operations import OPERATIONS
from ssllatency.stacks.openssl.phases import CALLEES, TRANSPORT
from ssllatency.stacks.phases import Callee

if TYPE_CHECKING:
    from ssllatency.code.values import FieldPath
    from ssllatency.elf.image import Image
    from ssllatency.stacks.names import Names
    from ssllatency.stacks.openssl.tables.lookup import OpenSslTables
    from ssllatency.stacks.openssl.tables.tails import Tails


class OpenSsl(Stack):
    """OpenSSL, from 1.1.1 on."""

    name = "openssl"
    number = abi.Stack.OPENSSL
    operations = OPERATIONS
    libraries: tuple[Library, ...] = (
        Library("libssl", ("SSL_do_handshake", "SSL_read"), called=True),
        Library("libcrypto", ("RSA_PKCS1_OpenSSL", "EVP_DigestSign"), same_suffix=True),
        Library("libcrypto_mb", tuple(operation.name for operation in OPERATIONS if operation.library == "libcrypto_mb")),
        Library(
            "qatengine",
            ("multibuff_rsa_priv_enc", "qat_rsa_priv_enc"),
            sonames=("qatengine.so", "libqatengine.so", "libqat.so"),
            always="bind_engine",
        ),
    )
    marks = {"OpenSSL": Mark(b"ssl/ssl_lib.c\0")}  # noqa: RUF012
    texts: tuple[bytes, ...] = (
        b"ssl/ssl_lib.c",
        b"crypto/evp/",
    )  # the latter of a libcrypto whose function names a debug file could provide
    states_version = True
    codes = Codes(  # what SSL_want returns, and what OpenResty's patch adds
        reading=3,
        writing=2,
        reasons={
            4: Reason.WANT_X509_LOOKUP,
            5: Reason.WANT_ASYNC,
            6: Reason.WANT_ASYNC_JOB,
            7: Reason.WANT_CLIENT_HELLO_CB,
            8: Reason.WANT_RETRY_VERIFY,
            99: Reason.WANT_SESSION_LOOKUP,
        },
    )
    callees: tuple[Callee, ...] = CALLEES
    transport = TRANSPORT
    inlines_handshake = False
    has_state_machine = True

    def identify(self, versions: Mapping[str, str]) -> tuple[str, str] | None:
        """By libssl's source: its version is stated elsewhere."""
        return ("OpenSSL", "") if "OpenSSL" in versions else None

    def recognises(self, image: Image) -> bool:  # noqa: ARG002
        """Any image with these functions: what is not OpenSSL comes later in the list."""
        return True

    def version(self, image: Image) -> str:
        """As OpenSSL_version returns it."""
        from ssllatency.stacks.openssl.accessors import stated_version

        return stated_version(image)

    def tables(self, image: Image) -> OpenSslTables:
        """Those of methods and of the default provider."""
        from ssllatency.stacks.openssl.tables.lookup import OpenSslTables

        return OpenSslTables(image)

    def tails(self, image: Image) -> Tails:
        """Those through tables of methods."""
        from ssllatency.stacks.openssl.tables.tails import Tails

        return Tails(image)

    def bio(self, image: Image) -> dict[str, int | None]:
        """As libcrypto's accessors show it."""
        from ssllatency.stacks.openssl.accessors import bio_flags_offset, bio_offsets

        return {"bio_flags": bio_flags_offset(image), **bio_offsets(image)}

    def connection(self, image: Image) -> dict[str, int]:
        """As its accessors show it."""
        from ssllatency.stacks.openssl.accessors import ssl_offsets

        return ssl_offsets(image)

    def labels(self, image: Image) -> dict[str, FieldPath]:
        """As its accessors show them."""
        from ssllatency.stacks.openssl.labels import label_paths

        return label_paths(image)

    def names(self, image: Image) -> Names:
        """Those of a libssl, a libcrypto or a program with both."""
        from ssllatency.stacks.openssl.names.library import names

        return names(image)
