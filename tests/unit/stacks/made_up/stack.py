# SPDX-License-Identifier: Apache-2.0
"""A TLS library that there isn't, made_up.c, as a stack. made_up.bpf.h is the kernel side's part of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ssllatency import abi
from ssllatency.abi import Convention, Reason, Returns, Wait
from ssllatency.stacks.base import Codes, HandshakeCalls, Library, Mark, Stack
from ssllatency.stacks.names import Names
from ssllatency.stacks.operation import Operation, Tier
from ssllatency.stacks.phases import Callee, ErrorFunction, ErrorKind, Phase, Transport

if TYPE_CHECKING:
    from ssllatency.code.values import FieldPath
    from ssllatency.elf.image import Image


def _call(name: str, convention: Convention, tier: Tier) -> Operation:
    return Operation(
        name,
        "libmadeup",
        convention,
        (name,),
        ssl_argument=True,
        async_job=False,
        tier=tier,
        returns=Returns.NEGATIVE_ERROR,
        only_entry=convention is Convention.NONE,
    )


class MadeUp(Stack):
    """The library of made_up.c."""

    name = "made-up"
    title = "madeup TLS"
    number = getattr(abi.Stack, "MADE_UP", abi.Stack.OPENSSL)  # it has a number where the kernel side was compiled with it
    operations = (
        _call("madeup_handshake", Convention.SSL_HANDSHAKE, Tier.HANDSHAKE),
        _call("madeup_read", Convention.SSL_IO, Tier.DATA),
        _call("madeup_flush", Convention.SSL_IO, Tier.DATA),
        _call("madeup_free", Convention.NONE, Tier.HANDSHAKE),
    )
    libraries = (Library("libmadeup", ("madeup_handshake",), file_names=("libmadeup.so*",), called=True, lower=True),)
    marks = {"made-up": Mark(b"madeup TLS ")}  # noqa: RUF012
    texts = (b"madeup TLS ",)
    states_version = True
    codes = Codes(
        reading=1,
        writing=4,
        reasons={2: Reason.WANT_CLIENT_HELLO_CB},
        waits={Reason.WANT_READ: Wait.PEER, Reason.WANT_CLIENT_HELLO_CB: Wait.APPLICATION},
    )
    callees = (Callee(Phase.PRIVATE_KEY, "madeup_sign", operation="sign"),)
    transport = (Callee(Transport.WAIT_PEER, "madeup_fetch"),)
    offers = {}  # noqa: RUF012
    handshake_calls = HandshakeCalls("madeup_handshake", beside=("madeup_free",), data=("madeup_read", "madeup_flush"))
    inlines_handshake = False

    def identify(self, versions: Mapping[str, str]) -> tuple[str, str] | None:
        return ("made-up", "") if "made-up" in versions else None

    def recognises(self, image: Image) -> bool:
        return image.function("madeup_handshake") is not None

    def version(self, image: Image) -> str:
        from ssllatency.code.returns import returned_address

        function = image.function("madeup_version")
        stated = returned_address(image, function.address) if function else None
        return image.text(stated) if stated else ""

    def name_and_release(self, version: str) -> tuple[str, str]:
        return self.title, version.removeprefix(self.title).lstrip()

    def error_functions(self, image: Image) -> tuple[ErrorFunction, ...]:  # noqa: ARG002
        return (ErrorFunction(ErrorKind.RAISE, "madeup_raise"),)

    def connection(self, image: Image) -> dict[str, int]:
        from ssllatency.stacks.openssl.accessors import field_returned

        accessors = {"rwstate": "madeup_waits_for", "server": "madeup_is_server"}
        fields = {name: field_returned(image, accessor, 1) for name, accessor in accessors.items()}
        return {name: field[0] for name, field in fields.items() if field}

    def labels(self, image: Image) -> dict[str, FieldPath]:
        from ssllatency.code.values import FieldPath
        from ssllatency.stacks.openssl.accessors import field_returned

        version = field_returned(image, "madeup_protocol", 1)
        return {"version": FieldPath(version, 4)} if version else {}

    def names(self, image: Image) -> Names:  # noqa: ARG002
        return Names(
            reasons={(1, 7): "bad luck"},
            libraries={1: "made-up routines"},
            alerts={40: "no luck"},
            ciphers={0x03001301: "MADE_UP_CIPHER"},
            major=1,
            ssl=1,
        )
