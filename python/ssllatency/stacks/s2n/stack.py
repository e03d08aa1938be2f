# SPDX-License-Identifier: Apache-2.0
"""s2n-tls as a stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ssllatency import abi
from ssllatency.abi import Outcome, Reason, Wait
from ssllatency.stacks.base import Codes, HandshakeCalls, Library, Mark, Stack
from ssllatency.stacks.phases import Callee, Offer, Phase
from ssllatency.stacks.s2n.operations import LIBRARY, OPERATIONS

if TYPE_CHECKING:
    from ssllatency.code.bodies import Bodies
    from ssllatency.code.values import FieldPath
    from ssllatency.elf.image import Image
    from ssllatency.stacks.names import Names

_ERROR = b"S2N_ERR_IO_BLOCKED\0"
# s2n_errno's values: S2N_ERR_T_BLOCKED << 26, and what follows.
_IO_BLOCKED, _ASYNC_BLOCKED, _EARLY_DATA_BLOCKED = range(3 << 26, (3 << 26) + 3)
_IO, _CLOSED = 1 << 26, 2 << 26


class S2n(Stack):
    """s2n-tls, shared or linked into a program, whose functions are those of no other stack."""

    name = "s2n"
    title = "s2n-tls"
    number = abi.Stack.S2N
    operations = OPERATIONS
    libraries = (
        Library(
            LIBRARY,
            ("s2n_negotiate", "s2n_recv"),
            file_names=("libs2n.so*",),
            loaded_as="libs2n.so",
            loaded_versions=(".1", ""),
            called=True,
        ),
    )
    marks = {"s2n-tls": Mark(_ERROR)}  # noqa: RUF012
    texts = (_ERROR,)
    states_version = False
    codes = Codes(
        reading=_IO_BLOCKED,
        writing=_IO_BLOCKED,
        reasons={_ASYNC_BLOCKED: Reason.APPLICATION_INPUT, _EARLY_DATA_BLOCKED: Reason.EARLY_DATA},
        ends={_IO: (Outcome.FAILURE, Reason.SYSCALL), _CLOSED: (Outcome.FAILURE, Reason.SYSCALL)},
        waits={
            Reason.UNKNOWN: Wait.UNKNOWN,
            Reason.WANT_READ: Wait.PEER,
            Reason.WANT_WRITE: Wait.WINDOW,
            Reason.APPLICATION_INPUT: Wait.APPLICATION,
            Reason.EARLY_DATA: Wait.APPLICATION,
        },
    )
    callees = (
        Callee(Phase.PRIVATE_KEY, "s2n_pkey_sign", operation="sign"),
        Callee(Phase.KEY_EXCHANGE, "s2n_ecc_evp_compute_shared_secret_from_params"),
    )
    transport = ()
    handshake_calls = HandshakeCalls(shakes="s2n_negotiate", beside=("s2n_connection_free", "s2n_connection_wipe"))
    inlines_handshake = False
    keeps_name_in_one_place = True
    scripted = False
    errors_in_threads = True
    shows_waits = "s2n_errno_location"
    offers: Mapping[str, Offer] = {}

    def recognises(self, image: Image) -> bool:
        """By the function that every use of it calls."""
        return image.function("s2n_negotiate") is not None

    def version(self, image: Image) -> str:  # noqa: ARG002
        """Its name: it states no version."""
        return self.title

    def connection(self, image: Image) -> dict[str, int]:
        """The offsets that its functions show."""
        from ssllatency.stacks.s2n.connection import connection_offsets

        return connection_offsets(image)

    def labels(self, image: Image) -> dict[str, FieldPath]:
        """The paths that its accessors show."""
        from ssllatency.stacks.s2n.connection import label_paths

        return label_paths(image)

    def runs_handshakes_alone(self, image: Image, bodies: Bodies) -> bool:  # noqa: ARG002
        """Whether no read or write makes a handshake: only s2n_recv_early_data and its like do, by s2n_negotiate."""
        return True

    def names(self, image: Image) -> Names:
        """Those that its own function gives its errors."""
        from ssllatency.stacks.s2n.names import names

        return names(image)
