# SPDX-License-Identifier: Apache-2.0
"""BoringSSL as a stack. Its functions, and those that it lacks, are OpenSSL's."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from ssllatency import abi
from ssllatency.abi import Outcome, Reason, Wait
from ssllatency.stacks.base import Codes, Mark
from ssllatency.stacks.boringssl.offers import OFFERS
from ssllatency.stacks.openssl.stack import BIO_WAITS, OpenSsl
from ssllatency.stacks.phases import Callee, Phase, PhaseFunction, Transport

if TYPE_CHECKING:
    from ssllatency.code.bodies import Bodies
    from ssllatency.code.machine import Machine
    from ssllatency.code.values import FieldPath
    from ssllatency.elf.image import Function, Image
    from ssllatency.stacks.boringssl.handshake_code import BoringSslHandshakeCode
    from ssllatency.stacks.boringssl.unnamed import BoringSslTables
    from ssllatency.stacks.names import Names

_FIRST_OWN = 11  # SSL_ERROR_PENDING_SESSION; from here on in the order of the reasons


def _aws_lc_version(piece: bytes, at: int) -> str | None:
    version = re.compile(rb"AWS-LC (?:(\d{1,3}\.\d{1,3}\.\d{1,3})|KEM method)\0").match(piece, at)
    return (version[1] or b"").decode() if version else None


class BoringSsl(OpenSsl):
    """BoringSSL and AWS-LC: what isn't told here is as in OpenSSL."""

    name = "boringssl"
    title = "BoringSSL"
    number = abi.Stack.BORINGSSL
    operations = ()
    libraries = ()
    marks = {"AWS-LC": Mark(b"AWS-LC ", _aws_lc_version), "BoringSSL": Mark(b"ssl/ssl_lib.cc\0")}  # noqa: RUF012
    texts = ()  # OpenSSL's
    states_version = False
    codes = Codes(  # SSL_ERROR_* of openssl/ssl.h
        reading=2,
        writing=3,
        reasons={4: Reason.WANT_X509_LOOKUP}
        | {
            _FIRST_OWN + reason - Reason.PENDING_SESSION: Reason(reason)
            for reason in range(Reason.PENDING_SESSION, Reason.HANDSHAKE_HINTS_READY + 1)
        },
        ends={5: (Outcome.FAILURE, Reason.SYSCALL), 6: (Outcome.CLOSED, Reason.ZERO_RETURN)},
        waits=BIO_WAITS
        | {
            Reason.WANT_X509_LOOKUP: Wait.LOOKUP,
            Reason.PENDING_SESSION: Wait.LOOKUP,
            Reason.PENDING_CERTIFICATE: Wait.LOOKUP,
            Reason.WANT_PRIVATE_KEY_OPERATION: Wait.APPLICATION,
            Reason.PENDING_TICKET: Wait.APPLICATION,
            Reason.EARLY_DATA_REJECTED: Wait.HANDSHAKE,
            Reason.WANT_CERTIFICATE_VERIFY: Wait.APPLICATION,
            Reason.HANDOFF: Wait.HANDSHAKE,
            Reason.HANDBACK: Wait.HANDSHAKE,
            Reason.WANT_RENEGOTIATE: Wait.HANDSHAKE,
            Reason.HANDSHAKE_HINTS_READY: Wait.HANDSHAKE,
        },
    )
    callees = (*OpenSsl.callees, Callee(Phase.PRIVATE_KEY, "RSA_decrypt", operation="decrypt", size_argument=3))
    # The latter since 2025. Without symbols the one that is called has the former's name.
    transport = (*OpenSsl.transport, Callee(Transport.WAIT_WINDOW, "BIO_write_ex"))
    inlines_handshake = True
    offers = OFFERS
    keeps_name_in_one_place = True

    def identify(self, versions: Mapping[str, str]) -> tuple[str, str] | None:
        """AWS-LC's libssl is BoringSSL's; its libcrypto alone does no TLS."""
        if "BoringSSL" not in versions:
            return None
        return ("AWS-LC", versions["AWS-LC"]) if "AWS-LC" in versions else ("BoringSSL", "")

    def recognises(self, image: Image) -> bool:
        """By SSL_get_error, which returns what the connection holds."""
        return bool(self.connection(image))

    def connection(self, image: Image) -> dict[str, int]:
        """The offsets that SSL_get_error shows, and which bit tells servers, by SSL_is_server or by what chooses the side."""
        from ssllatency.stacks.boringssl.connection import boringssl_offsets
        from ssllatency.stacks.boringssl.unnamed import known_of

        offsets = boringssl_offsets(image)
        return {**known_of(image).server, **offsets} if offsets else {}

    def labels(self, image: Image) -> dict[str, FieldPath]:
        """The paths that its code shows, and whether a handshake is under way."""
        from ssllatency.stacks.boringssl.connection import boringssl_offsets, boringssl_paths
        from ssllatency.stacks.boringssl.labels import label_paths
        from ssllatency.stacks.boringssl.unnamed import known_of

        offsets = boringssl_offsets(image)
        shown = super().labels(image) or boringssl_paths(image) or dict(known_of(image).labels)
        return {**shown, **label_paths(image, offsets["boringssl"])} if offsets else shown

    def unnamed_functions(self, image: Image) -> Mapping[str, Function]:
        """Those that the errors tell that they raise."""
        from ssllatency.stacks.boringssl.unnamed import found_in

        return found_in(image).functions

    def unfound(self, image: Image) -> tuple[str, ...]:
        """Those of the functions that applications call and that phases need."""
        from ssllatency.stacks.boringssl.unnamed import known_of

        return tuple(known_of(image).missing)

    def untold(self, image: Image) -> tuple[str, ...]:
        """Those of OpenSSL's, but for the signature where it is seen that one is made."""
        from ssllatency.code.flow import Unplannable
        from ssllatency.elf.image import ElfError

        untold = super().untold(image)
        try:
            self.signing_function(image)
        except (Unplannable, ElfError):
            return untold
        return tuple(name for name in untold if name != "signature")

    def tables(self, image: Image) -> BoringSslTables:
        """OpenSSL's, and what is known of functions that have no symbols."""
        from ssllatency.stacks.boringssl.unnamed import BoringSslTables

        return BoringSslTables(image)

    def bio(self, image: Image) -> dict[str, int | None]:
        """OpenSSL's accessors of a BIO, or the functions that SSL_get_error calls, where no other accessor has a name."""
        from ssllatency.stacks.openssl.accessors import field_returned

        offsets = super().bio(image)
        flags = field_returned(image, "BIO_should_read", 1) if offsets["bio_flags"] is None else None
        return {**offsets, "bio_flags": flags[0]} if flags else offsets

    def names(self, image: Image) -> Names:  # noqa: ARG002
        """Those of its headers: its own tables are packed, and few programs have them."""
        from ssllatency.stacks.boringssl.names import NAMES

        return NAMES

    def phase_functions(self, image: Image) -> Sequence[PhaseFunction]:
        """Those of key shares, and the check of the peer's certificates."""
        from ssllatency.stacks.boringssl.phases import phase_functions

        return phase_functions(image)

    def handshake_code(
        self, image: Image, machine: Machine, bodies: Bodies, libraries: Collection[str]
    ) -> BoringSslHandshakeCode:
        """OpenSSL's calls, and those of callbacks and of what looks a session up."""
        from ssllatency.stacks.boringssl.handshake_code import BoringSslHandshakeCode

        alone = len(libraries) == 1
        return BoringSslHandshakeCode(image, machine, bodies, self.callees, self.transport, alone=alone)

    def signing_function(self, image: Image) -> Function | None:
        """The one that raises errors of private keys first."""
        from ssllatency.stacks.boringssl.raised_errors import errors_of
        from ssllatency.stacks.boringssl.signing import signing_function

        return signing_function(image, errors_of(image))

    def parameters_function(self, image: Image) -> Function | None:
        """The one that the table of extensions shows."""
        from ssllatency.stacks.boringssl.connection import boringssl_offsets
        from ssllatency.stacks.boringssl.labels import quic_function

        offsets = boringssl_offsets(image)
        return quic_function(image, offsets["boringssl"]) if offsets else None

    def state_machine(self, image: Image, bodies: Bodies) -> Function | None:  # noqa: ARG002
        """None: the functions that run a handshake's steps are called by SSL_do_handshake."""
        return None

    def runs_handshakes_alone(self, image: Image, bodies: Bodies) -> bool:
        """Whether they do, as the calls of its functions show."""
        from ssllatency.stacks.boringssl.connection import runs_handshakes_alone

        return runs_handshakes_alone(image, bodies)
