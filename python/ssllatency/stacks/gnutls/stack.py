# SPDX-License-Identifier: Apache-2.0
"""GnuTLS as a stack."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from ssllatency import abi
from ssllatency.abi import Reason, Wait
from ssllatency.stacks.base import Codes, HandshakeCalls, Library, Mark, Stack
from ssllatency.stacks.gnutls.operations import LIBRARY, OPERATIONS
from ssllatency.stacks.phases import Callee, Offer, Phase

if TYPE_CHECKING:
    from ssllatency.code.bodies import Bodies
    from ssllatency.code.machine import Machine
    from ssllatency.code.values import FieldPath
    from ssllatency.elf.image import Image
    from ssllatency.stacks.gnutls.handshake_code import GnuTlsHandshakeCode
    from ssllatency.stacks.names import Names

_SOURCE = b"GNUTLS_E_PREMATURE_TERMINATION\0"  # of its table of errors, which is always linked


class GnuTls(Stack):
    """GnuTLS, whose functions are those of no other stack."""

    name = "gnutls"
    title = "GnuTLS"
    number = abi.Stack.GNUTLS
    operations = OPERATIONS
    libraries = (
        Library(
            LIBRARY,
            ("gnutls_handshake", "gnutls_record_recv"),
            file_names=("libgnutls.so*", "libgnutls-*.so*"),  # the latter as Python wheels bundle it
            loaded_as="libgnutls.so",
            loaded_versions=(".30",),
            called=True,
        ),
    )
    marks = {"GnuTLS": Mark(_SOURCE)}  # noqa: RUF012
    texts = (_SOURCE,)
    states_version = True
    codes = Codes(
        reading=0,
        writing=1,
        reasons={},
        waits={Reason.UNKNOWN: Wait.UNKNOWN, Reason.WANT_READ: Wait.PEER, Reason.WANT_WRITE: Wait.WINDOW},
    )
    callees = (
        Callee(Phase.PRIVATE_KEY, "gnutls_privkey_sign_data2", operation="sign"),
        Callee(Phase.PRIVATE_KEY, "gnutls_privkey_sign_hash2", operation="sign"),
        Callee(Phase.PRIVATE_KEY, "gnutls_privkey_decrypt_data2", operation="decrypt"),
        Callee(Phase.PRIVATE_KEY, "gnutls_privkey_decrypt_data", operation="decrypt"),
        Callee(Phase.PEER_VERIFICATION, "gnutls_pubkey_verify_data2"),
        Callee(Phase.PEER_VERIFICATION, "gnutls_pubkey_verify_hash2"),
    )
    transport = ()
    handshake_calls = HandshakeCalls(shakes="gnutls_handshake", beside=("gnutls_deinit",))
    inlines_handshake = False
    scripted = False
    shows_waits = "gnutls_record_get_direction"
    offers: Mapping[str, Offer] = {}

    def recognises(self, image: Image) -> bool:
        """By the function that every use of it calls."""
        return image.function("gnutls_handshake") is not None

    def version(self, image: Image) -> str:
        """The text that gnutls_check_version returns."""
        from ssllatency.code.evaluate import returned
        from ssllatency.stacks.texts import readable

        function = image.function("gnutls_check_version")
        values = returned(image, function.address, rdi=0) if function else []
        texts = {text for value in values if isinstance(value, int) and (text := readable(image, value))}
        return f"{self.title} {texts.pop()}" if len(texts) == 1 else ""

    def connection(self, image: Image) -> dict[str, int]:
        """The offsets that its accessors show."""
        from ssllatency.stacks.gnutls.connection import connection_offsets

        return connection_offsets(image)

    def labels(self, image: Image) -> dict[str, FieldPath]:
        """The paths that its accessors and tables show."""
        from ssllatency.stacks.gnutls.connection import label_paths

        return label_paths(image)

    def handshake_code(
        self,
        image: Image,
        machine: Machine,
        bodies: Bodies,
        libraries: Collection[str],  # noqa: ARG002
    ) -> GnuTlsHandshakeCode:
        """The calls in libgnutls, those through the pointers to what reads and writes as well."""
        from ssllatency.stacks.gnutls.handshake_code import GnuTlsHandshakeCode

        return GnuTlsHandshakeCode(image, machine, bodies, self.callees)

    def runs_handshakes_alone(self, image: Image, bodies: Bodies) -> bool:  # noqa: ARG002
        """Whether no read or write makes a handshake: they ask the application to call gnutls_handshake."""
        return True

    def names(self, image: Image) -> Names:
        """Those of its header, and the cipher suites of its table."""
        from ssllatency.stacks.gnutls.names import names

        return names(image)
