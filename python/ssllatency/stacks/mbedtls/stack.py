# SPDX-License-Identifier: Apache-2.0
"""Mbed TLS as a stack."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from ssllatency import abi
from ssllatency.abi import Outcome, Reason, Wait
from ssllatency.stacks.base import Codes, HandshakeCalls, Library, Mark, Stack
from ssllatency.stacks.mbedtls.operations import LIBRARY, OPERATIONS, STEP
from ssllatency.stacks.phases import Callee, Offer, Phase

if TYPE_CHECKING:
    from ssllatency.code.bodies import Bodies
    from ssllatency.code.machine import Machine
    from ssllatency.code.values import FieldPath
    from ssllatency.elf.image import Function, Image
    from ssllatency.stacks.mbedtls.handshake_code import MbedTlsHandshakeCode
    from ssllatency.stacks.names import Names

_SUITE = b"TLS-ECDHE-RSA-WITH-AES-128-GCM-SHA256\0"  # of its table of cipher suites: no other library writes their names so


class MbedTls(Stack):
    """Mbed TLS, whose functions are those of no other stack."""

    name = "mbedtls"
    title = "Mbed TLS"
    number = abi.Stack.MBEDTLS
    operations = OPERATIONS
    libraries = (
        Library(
            LIBRARY,
            ("mbedtls_ssl_handshake", "mbedtls_ssl_read"),
            file_names=("libmbedtls.so*", "libmbedtls-*.so*"),  # the latter as Python wheels bundle it
            loaded_as="libmbedtls.so",
            loaded_versions=(".14", ".21"),
            called=True,
        ),
    )
    marks = {"Mbed TLS": Mark(_SUITE)}  # noqa: RUF012
    texts = (_SUITE,)
    states_version = False  # its version is in libmbedcrypto
    codes = Codes(  # what calls return, without the sign
        reading=0x6900,
        writing=0x6880,
        reasons={
            0x6500: Reason.WANT_ASYNC,
            0x6780: Reason.WANT_RENEGOTIATE,
            0x6800: Reason.WANT_READ,
            0x6A80: Reason.WANT_RENEGOTIATE,
            0x6B00: Reason.UNKNOWN,
            0x7000: Reason.UNKNOWN,
        },
        ends={
            0: (Outcome.FAILURE, Reason.SYSCALL),
            0x004C: (Outcome.FAILURE, Reason.SYSCALL),
            0x004E: (Outcome.FAILURE, Reason.SYSCALL),
            0x0050: (Outcome.FAILURE, Reason.SYSCALL),
            0x7280: (Outcome.FAILURE, Reason.SYSCALL),
            0x7880: (Outcome.CLOSED, Reason.ZERO_RETURN),
        },
        waits={
            Reason.UNKNOWN: Wait.UNKNOWN,
            Reason.WANT_READ: Wait.PEER,
            Reason.WANT_WRITE: Wait.WINDOW,
            Reason.WANT_ASYNC: Wait.OFFLOAD,
            Reason.WANT_RENEGOTIATE: Wait.HANDSHAKE,
        },
    )
    callees = (
        Callee(Phase.PRIVATE_KEY, "mbedtls_pk_sign", operation="sign"),
        Callee(Phase.PRIVATE_KEY, "mbedtls_pk_sign_ext", operation="sign"),
        Callee(Phase.PRIVATE_KEY, "mbedtls_pk_sign_restartable", operation="sign"),
        Callee(Phase.PRIVATE_KEY, "mbedtls_pk_decrypt", operation="decrypt"),
        Callee(Phase.KEY_EXCHANGE, "mbedtls_ecdh_make_params"),
        Callee(Phase.KEY_EXCHANGE, "mbedtls_ecdh_make_public"),
        Callee(Phase.KEY_EXCHANGE, "mbedtls_ecdh_calc_secret"),
        Callee(Phase.KEY_EXCHANGE, "mbedtls_dhm_make_params"),
        Callee(Phase.KEY_EXCHANGE, "mbedtls_dhm_make_public"),
        Callee(Phase.KEY_EXCHANGE, "mbedtls_dhm_calc_secret"),
        Callee(Phase.KEY_EXCHANGE, "psa_generate_key"),
        Callee(Phase.KEY_EXCHANGE, "psa_raw_key_agreement"),
        Callee(Phase.PEER_VERIFICATION, "mbedtls_x509_crt_verify_restartable"),
        Callee(Phase.PEER_VERIFICATION, "mbedtls_x509_crt_verify_with_profile"),
        Callee(Phase.PEER_VERIFICATION, "mbedtls_x509_crt_verify_with_cb"),
        Callee(Phase.PEER_VERIFICATION, "mbedtls_pk_verify"),
        Callee(Phase.PEER_VERIFICATION, "mbedtls_pk_verify_ext"),
        Callee(Phase.PEER_VERIFICATION, "mbedtls_pk_verify_restartable"),
    )
    transport = ()
    handshake_calls = HandshakeCalls(shakes="mbedtls_ssl_handshake", beside=("mbedtls_ssl_free", "mbedtls_ssl_session_reset"))
    inlines_handshake = False
    scripted = False
    shows_waits = ""
    ends_protocol_in_zero = True
    offers: Mapping[str, Offer] = {}

    def recognises(self, image: Image) -> bool:
        """By the function that every handshake goes through."""
        return image.function("mbedtls_ssl_handshake") is not None

    def version(self, image: Image) -> str:  # noqa: ARG002
        """Unknown."""
        return ""

    def connection(self, image: Image) -> dict[str, int]:
        """The offset of the side in a configuration."""
        from ssllatency.stacks.mbedtls.connection import connection_offsets

        return connection_offsets(image)

    def runtime_fields(self, image: Image) -> tuple[int, ...]:
        """The numbers that its code shows, by MbedtlsField."""
        from ssllatency.stacks.mbedtls.connection import numbers

        return numbers(image)

    def labels(self, image: Image) -> dict[str, FieldPath]:
        """The paths that its accessors show."""
        from ssllatency.stacks.mbedtls.connection import label_paths

        return label_paths(image)

    def handshake_code(
        self,
        image: Image,
        machine: Machine,
        bodies: Bodies,
        libraries: Collection[str],  # noqa: ARG002
    ) -> MbedTlsHandshakeCode:
        """The calls in libmbedtls, those through the pointers to what reads and writes as well."""
        from ssllatency.stacks.mbedtls.handshake_code import MbedTlsHandshakeCode

        return MbedTlsHandshakeCode(image, machine, bodies, self.callees)

    def state_machine(self, image: Image, bodies: Bodies) -> Function | None:  # noqa: ARG002
        """The step that every handshake takes again and again, which programs may also take by themselves; only where a context
        shows whether a step was the last."""
        return image.function(STEP) if self.runtime_fields(image)[abi.MbedtlsField.OVER] else None

    def runs_handshakes_alone(self, image: Image, bodies: Bodies) -> bool:  # noqa: ARG002
        """Whether reads and writes call mbedtls_ssl_handshake for a handshake: they do."""
        return True

    def names(self, image: Image) -> Names:
        """Those of its headers, and the cipher suites of its table."""
        from ssllatency.stacks.mbedtls.names import names

        return names(image)
