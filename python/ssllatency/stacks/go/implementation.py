# SPDX-License-Identifier: Apache-2.0
"""How a Go program with crypto/tls is recognised: by its build information, and the functions in its table of functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ssllatency.stacks.base import Implementation, Mark

if TYPE_CHECKING:
    from ssllatency.elf.image import Image

_VERSION_AT = 32  # since Go 1.18 the version follows the header of the build information, its length before it
_VERSION_INLINE = 2
_LONGEST = 128
_GO, _TLS = "Go", "Go crypto/tls"


def _version(piece: bytes, at: int) -> str | None:
    header = piece[at : at + _VERSION_AT + 1]
    if len(header) <= _VERSION_AT or not header[15] & _VERSION_INLINE:
        return ""
    length = header[_VERSION_AT]
    text = piece[at + _VERSION_AT + 1 :][: min(length, _LONGEST)]
    version = re.match(rb"go[\d.]+[a-z0-9]*", text)
    return version[0].decode() if version else ""


class Go(Implementation):
    """Go's own TLS."""

    marks = {_GO: Mark(b"\xff Go buildinf:", _version), _TLS: Mark(b"crypto/tls.(*Conn).")}  # noqa: RUF012
    texts = (marks[_TLS].text,)

    def identify(self, versions: Mapping[str, str]) -> tuple[str, str] | None:
        """With the version of Go."""
        return (_TLS, versions[_GO]) if {_GO, _TLS} <= versions.keys() else None

    def is_inside(self, image: Image) -> bool:
        """Whether the program has crypto/tls' handshake; also where its table of functions can't be read: its name is there. A
        debugger, say, has only the name."""
        from ssllatency.elf.source import ElfError
        from ssllatency.stacks.go.program import Program
        from ssllatency.stacks.go.traced_functions import SERVER_HANDSHAKE

        try:
            return bool(Program(image).functions.named(SERVER_HANDSHAKE))
        except ElfError:
            return True
