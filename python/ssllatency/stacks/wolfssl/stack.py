# SPDX-License-Identifier: Apache-2.0
"""wolfSSL as a stack."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from ssllatency import abi
from ssllatency.abi import Reason, Wait
from ssllatency.stacks.base import Codes, HandshakeCalls, Library, Mark, Stack
from ssllatency.stacks.phases import Callee, Offer, Phase
from ssllatency.stacks.wolfssl.operations import LIBRARY, OPERATIONS

if TYPE_CHECKING:
    from ssllatency.code.bodies import Bodies
    from ssllatency.code.machine import Machine
    from ssllatency.code.values import FieldPath
    from ssllatency.elf.image import Image
    from ssllatency.stacks.names import Names
    from ssllatency.stacks.wolfssl.handshake_code import WolfSslHandshakeCode

_TEXT = b"don't have enough data to complete task\0"  # of its names of errors

_SIGNING = ("wc_RsaSSL_Sign", "wc_RsaPSS_Sign", "wc_ecc_sign_hash", "wc_ed25519_sign_msg", "wc_ed448_sign_msg")
_AGREEING = (
    "wc_ecc_make_key_ex",
    "wc_ecc_shared_secret",
    "wc_curve25519_make_key",
    "wc_curve25519_shared_secret_ex",
    "wc_curve448_make_key",
    "wc_curve448_shared_secret_ex",
    "wc_DhGenerateKeyPair",
    "wc_DhAgree",
    "wc_MlKemKey_MakeKey",
    "wc_MlKemKey_Encapsulate",
    "wc_MlKemKey_Decapsulate",
)
_VERIFYING = ("wc_ecc_verify_hash", "wc_ed25519_verify_msg", "wc_ed448_verify_msg")
# By RSA it also checks what it has signed itself, in a function that looks at the padding as well, which those that check the
# peer's leave to their callers. Certificates are checked by a function that knows other keys as well.
_OWN_SIGNATURE = ("wc_RsaPSS_CheckPadding", "wc_RsaPSS_CheckPadding_ex")
_RSA_CHECKS = (
    Callee(
        Phase.PEER_VERIFICATION,
        "wc_RsaSSL_VerifyInline",
        beside=("wc_RsaPSS_VerifyInline", *_VERIFYING[1:2]),
        never_beside=_OWN_SIGNATURE,
    ),
    Callee(Phase.PEER_VERIFICATION, "wc_RsaPSS_VerifyInline", never_beside=_OWN_SIGNATURE),
    Callee(Phase.PEER_VERIFICATION, "wc_RsaPSS_VerifyInline_ex", beside=_VERIFYING[1:2]),
)


def _code(error: int) -> int:
    """A negative code as 32 bits."""
    return error % (1 << 32)


class WolfSsl(Stack):
    """wolfSSL, whose functions are those of no other stack."""

    name = "wolfssl"
    title = "wolfSSL"
    number = abi.Stack.WOLFSSL
    operations = OPERATIONS
    libraries = (
        Library(
            LIBRARY,
            ("wolfSSL_accept", "wolfSSL_connect"),
            file_names=("libwolfssl.so*",),
            loaded_as="libwolfssl.so",
            loaded_versions=(".35", ".42", ".45"),
            called=True,
        ),
    )
    marks = {"wolfSSL": Mark(_TEXT)}  # noqa: RUF012
    texts = (_TEXT,)
    states_version = True
    codes = Codes(
        reading=_code(-323),
        writing=_code(-327),
        reasons={_code(-108): Reason.WANT_ASYNC, _code(-408): Reason.WANT_RETRY_VERIFY, _code(-441): Reason.UNKNOWN},
        waits={
            Reason.UNKNOWN: Wait.UNKNOWN,
            Reason.WANT_READ: Wait.PEER,
            Reason.WANT_WRITE: Wait.WINDOW,
            Reason.WANT_ASYNC: Wait.OFFLOAD,
            Reason.WANT_RETRY_VERIFY: Wait.APPLICATION,
        },
    )
    callees = (
        *(Callee(Phase.PRIVATE_KEY, name, operation="sign") for name in _SIGNING),
        Callee(Phase.PRIVATE_KEY, "wc_RsaPrivateDecryptInline", operation="decrypt"),
        *(Callee(Phase.KEY_EXCHANGE, name) for name in _AGREEING),
        *(Callee(Phase.PEER_VERIFICATION, name) for name in _VERIFYING),
        *_RSA_CHECKS,
    )
    transport = ()
    handshake_calls = HandshakeCalls(
        shakes="wolfSSL_accept",
        beside=("wolfSSL_connect", "wolfSSL_accept_TLSv13", "wolfSSL_connect_TLSv13", "wolfSSL_free", "wolfSSL_clear"),
    )
    inlines_handshake = False
    scripted = False
    shows_waits = "wolfSSL_get_error"
    offers: Mapping[str, Offer] = {}

    def recognises(self, image: Image) -> bool:
        """By the functions one of which every use of it calls."""
        return any(image.function(name) is not None for name in ("wolfSSL_accept", "wolfSSL_connect"))

    def version(self, image: Image) -> str:
        """The text that wolfSSL_lib_version returns."""
        from ssllatency.code.returns import returned_address

        function = image.function("wolfSSL_lib_version")
        stated = returned_address(image, function.address) if function else None
        text = image.text(stated) if stated else ""
        return f"{self.title} {text}" if text else ""

    def connection(self, image: Image) -> dict[str, int]:
        """The offsets that its accessors show."""
        from ssllatency.stacks.wolfssl.connection import connection_offsets

        return connection_offsets(image)

    def labels(self, image: Image) -> dict[str, FieldPath]:
        """The paths that its accessors show."""
        from ssllatency.stacks.wolfssl.connection import label_paths

        return label_paths(image)

    def handshake_code(
        self,
        image: Image,
        machine: Machine,
        bodies: Bodies,
        libraries: Collection[str],  # noqa: ARG002
    ) -> WolfSslHandshakeCode:
        """The calls in libwolfssl, those through the pointers to what reads and writes as well."""
        from ssllatency.stacks.wolfssl.handshake_code import WolfSslHandshakeCode

        return WolfSslHandshakeCode(image, machine, bodies, self.callees)

    def runs_handshakes_alone(self, image: Image, bodies: Bodies) -> bool:  # noqa: ARG002
        """Whether reads and writes call those functions for a handshake, which they do by wolfSSL_negotiate."""
        return True

    def names(self, image: Image) -> Names:
        """Those of its headers, and the cipher suites of its table."""
        from ssllatency.stacks.wolfssl.names import names

        return names(image)
