# SPDX-License-Identifier: Apache-2.0
"""OpenSSL as a stack."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from ssllatency import abi
from ssllatency.abi import Reason, Wait
from ssllatency.stacks.base import Codes, HandshakeCalls, Library, Mark, Stack
from ssllatency.stacks.openssl.handshake.phases import CALLEES, OFFERS, TRANSPORT
from ssllatency.stacks.openssl.operations import OPERATIONS, PROVIDER_ENTRY
from ssllatency.stacks.phases import Callee, ErrorFunction

if TYPE_CHECKING:
    from ssllatency.code.bodies import Bodies
    from ssllatency.code.machine import Machine
    from ssllatency.code.values import FieldPath
    from ssllatency.elf.image import Function, Image
    from ssllatency.stacks.names import Names
    from ssllatency.stacks.openssl.handshake.code import OpenSslHandshakeCode
    from ssllatency.stacks.openssl.tables.lookup import OpenSslTables
    from ssllatency.stacks.openssl.tables.tails import MethodTails


# What labels() has to show of a handshake for each of its labels, one of these; and for the certificates that are served.
_SHOWN_BY = {
    "version": {"version"},
    "cipher": {"cipher"},
    "group": {"group", "group_tls13", "group_session"},
    "resumed": {"resumed"},
    "signature": {"signature"},
    "certificates": {"certificate", "sent_certificates"},
    "client_certificate": {"verify_mode"},
    "sni": {"server_name"},
    "alpn": {"alpn"},
}
_SONAME_VERSIONS = (".3", ".4", ".1.1", "")
BIO_WAITS = {
    Reason.UNKNOWN: Wait.UNKNOWN,
    Reason.WANT_READ: Wait.PEER,
    Reason.WANT_WRITE: Wait.WINDOW,
    Reason.WANT_CONNECT: Wait.CONNECTION,
    Reason.WANT_ACCEPT: Wait.CONNECTION,
}


class OpenSsl(Stack):
    """OpenSSL, from 1.1.1 on."""

    name = "openssl"
    title = "OpenSSL"
    number = abi.Stack.OPENSSL
    operations = OPERATIONS
    libraries: tuple[Library, ...] = (
        Library(
            "libssl",
            ("SSL_do_handshake", "SSL_read"),
            file_names=("libssl*.so*",),  # those as well that Python wheels bundle: libssl-8b5ba2b3.so.1.1
            loaded_as="libssl.so",
            loaded_versions=_SONAME_VERSIONS,
            called=True,
        ),
        Library(
            "libcrypto",
            ("RSA_PKCS1_OpenSSL", "EVP_DigestSign", "ERR_put_error"),
            file_names=("libcrypto*.so*",),
            loaded_as="libcrypto.so",
            loaded_versions=_SONAME_VERSIONS,
            same_suffix=True,
            lower=True,
            wakes="ASYNC_WAIT_CTX_set_wait_fd",
        ),
        Library(
            "libcrypto_mb",
            tuple(operation.name for operation in OPERATIONS if operation.library == "libcrypto_mb"),
            offloads=True,
            batches=True,
        ),
        Library("provider", (), always=PROVIDER_ENTRY),
        Library(
            "qatengine",
            ("multibuff_rsa_priv_enc", "qat_rsa_priv_enc"),
            sonames=("qatengine.so", "libqatengine.so", "libqat.so"),
            always="bind_engine",
            file_names=("qatengine*.so*", "libqat*.so*"),
            offloads=True,
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
        waits=BIO_WAITS
        | {
            Reason.WANT_X509_LOOKUP: Wait.LOOKUP,
            Reason.WANT_ASYNC: Wait.OFFLOAD,
            Reason.WANT_ASYNC_JOB: Wait.OFFLOAD,
            Reason.WANT_CLIENT_HELLO_CB: Wait.APPLICATION,
            Reason.WANT_RETRY_VERIFY: Wait.APPLICATION,
            Reason.WANT_SESSION_LOOKUP: Wait.LOOKUP,
        },
    )
    callees: tuple[Callee, ...] = CALLEES
    transport: tuple[Callee, ...] = TRANSPORT
    handshake_calls = HandshakeCalls(
        shakes="SSL_do_handshake",
        around=("SSL_accept", "SSL_connect"),
        beside=("SSL_read_early_data", "SSL_write_early_data", "SSL_free"),
        data=("SSL_read", "SSL_read_ex", "SSL_write", "SSL_write_ex", "SSL_write_ex2"),
        pauses="ASYNC_pause_job",
        software=("rsa_ossl_private_encrypt", "rsa_ossl_private_decrypt", "ossl_ecdsa_sign"),
    )
    inlines_handshake = False
    rooms: Mapping[str, str] = {
        "handshake": "ssllatency.stacks.openssl.handshake",
        "names": "ssllatency.stacks.openssl.names",
    }
    offers = OFFERS

    def identify(self, versions: Mapping[str, str]) -> tuple[str, str] | None:
        """By libssl's source: its version is stated elsewhere."""
        return ("OpenSSL", "") if "OpenSSL" in versions else None

    def recognises(self, image: Image) -> bool:  # noqa: ARG002
        """Any image with these functions: what is not OpenSSL comes later in the list."""
        return True

    def version(self, image: Image) -> str:
        """The text that OpenSSL_version returns."""
        from ssllatency.stacks.openssl.accessors import stated_version

        return stated_version(image)

    def name_and_release(self, version: str) -> tuple[str, str]:
        """The first two words, as every OpenSSL and its descendants state them."""
        name, release, *_ = (*version.split(), "", "")
        return name or self.title, release

    def tables(self, image: Image) -> OpenSslTables:
        """Those of methods and of the default provider."""
        from ssllatency.stacks.openssl.tables.lookup import OpenSslTables

        return OpenSslTables(image)

    def tails(self, image: Image) -> MethodTails:
        """Those through tables of methods."""
        from ssllatency.stacks.openssl.tables.tails import MethodTails

        return MethodTails(image)

    def bio(self, image: Image) -> dict[str, int | None]:
        """The offsets that libcrypto's accessors and templates show, and those that are known without their names."""
        from ssllatency.stacks.openssl.accessors import bio_flags_offset, bio_offsets
        from ssllatency.stacks.openssl.certificates import certificate_offsets
        from ssllatency.stacks.openssl.unnamed.found import known_of

        shown = {"bio_flags": bio_flags_offset(image), **bio_offsets(image), **certificate_offsets(image)}
        return {**known_of(image).bio, **shown}

    def connection(self, image: Image) -> dict[str, int]:
        """The offsets that its accessors show, and those that else is known of where they have no names."""
        from ssllatency.stacks.openssl.accessors import ssl_offsets
        from ssllatency.stacks.openssl.unnamed.found import known_of

        return {**known_of(image).offsets, **ssl_offsets(image)}

    def own_libraries(self, image: Image) -> tuple[str, ...]:
        """Return a provider of private-key operations in a file of its own, whose entry is its only name."""
        from ssllatency.stacks.openssl.tables.lookup import OpenSslTables

        if not image.function(PROVIDER_ENTRY):
            return ()
        tables = OpenSslTables(image)
        offers = any(tables.may_hold(each) or tables.find(each) for each in OPERATIONS if each.library == "provider")
        return ("provider",) if offers else ()

    def unnamed_functions(self, image: Image) -> Mapping[str, Function]:
        """Those that the names tell that they give with the errors that they raise."""
        from ssllatency.stacks.openssl.unnamed.found import named_in

        return named_in(image)

    def unfound(self, image: Image) -> tuple[str, ...]:
        """Those of the functions that applications call and that phases need."""
        from ssllatency.stacks.openssl.unnamed.found import known_of

        return tuple(known_of(image).missing)

    def untold(self, image: Image) -> tuple[str, ...]:
        """Those of which no place in a connection is found."""
        labels = self.labels(image).keys()
        return tuple(name for name, shown in _SHOWN_BY.items() if labels.isdisjoint(shown))

    def labels(self, image: Image) -> dict[str, FieldPath]:
        """The paths that its accessors show, and those that else are known where they have no names."""
        from ssllatency.stacks.openssl.labels import label_paths
        from ssllatency.stacks.openssl.unnamed.found import known_of

        return {**known_of(image).labels, **label_paths(image)}

    def handshake_code(
        self, image: Image, machine: Machine, bodies: Bodies, libraries: Collection[str]
    ) -> OpenSslHandshakeCode:
        """The calls in libssl, of hidden functions and of callbacks as well."""
        from ssllatency.stacks.openssl.handshake.code import OpenSslHandshakeCode

        alone = len(libraries) == 1
        return OpenSslHandshakeCode(image, machine, bodies, self.callees, self.transport, alone=alone)

    def transcript_function(self, image: Image, bodies: Bodies) -> Function | None:
        """The function by its name, by the name that it gives with its errors, or by what it calls."""
        from ssllatency.stacks.openssl.handshake.transcript import transcript_function

        return transcript_function(image, bodies)

    def state_machine(self, image: Image, bodies: Bodies) -> Function | None:
        """The function that the connection's methods lead to, or that is known by the errors that it raises."""
        from ssllatency.stacks.openssl.handshake.state_machine import state_machine
        from ssllatency.stacks.openssl.unnamed.found import known_of

        return known_of(image).functions.get("state_machine") or state_machine(image, bodies)

    def error_functions(self, image: Image) -> list[ErrorFunction]:
        """Those that put errors into the queue of a thread."""
        from ssllatency.stacks.openssl.handshake.errors import error_functions

        return error_functions(image)

    def names(self, image: Image) -> Names:
        """Those of a libssl, a libcrypto or a program with both."""
        from ssllatency.stacks.openssl.names.library import names

        return names(image)
