# SPDX-License-Identifier: Apache-2.0
"""Which TLS implementations are linked into an image, with or without symbols for their functions. They are recognised by texts
in the program (a Go program's table of function names, source paths in the errors of others)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ssllatency.elf.image import Image

_GO_VERSION_AT = 32  # since Go 1.18 the version follows the header of the build information, its length before it
_GO_VERSION_INLINE = 2
_LONGEST = 128


@dataclass(frozen=True)
class Inside:
    """`implementations`: (name, version) of those that aren't traced, the version "" where unknown. `traceable`: the name of
    the one that is where its functions' names are known, with its version where that is clear."""

    implementations: tuple[tuple[str, str], ...] = ()
    traceable: str = ""


def tls_inside(image: Image) -> Inside:
    """The implementations that the image's bytes show, read once from end to end. ElfError where the file is cut short."""
    versions: dict[str, str] = {}
    for _, piece in image.pieces(_LONGEST):
        for name, (mark, version) in _MARKS.items():
            at = piece.find(mark) if not versions.get(name) else -1
            while at >= 0 and (seen := version(piece, at)) is None:
                at = piece.find(mark, at + 1)
            if at >= 0:
                versions[name] = seen or ""
    shown = [("Go crypto/tls", versions["Go"])] if {"Go", "Go crypto/tls"} <= versions.keys() else []
    shown += [("rustls", versions["rustls"])] if "rustls" in versions else []
    return Inside(tuple(shown), _traceable(versions))


def _traceable(versions: dict[str, str]) -> str:
    """AWS-LC's libssl is BoringSSL's; its libcrypto alone does no TLS."""
    if "OpenSSL" in versions or "BoringSSL" not in versions:
        return "OpenSSL" if "OpenSSL" in versions else ""
    return f"AWS-LC {versions['AWS-LC']}".rstrip() if "AWS-LC" in versions else "BoringSSL"


def _go_version(piece: bytes, at: int) -> str | None:
    header = piece[at : at + _GO_VERSION_AT + 1]
    if len(header) <= _GO_VERSION_AT or not header[15] & _GO_VERSION_INLINE:
        return ""
    length = header[_GO_VERSION_AT]
    text = piece[at + _GO_VERSION_AT + 1 :][: min(length, _LONGEST)]
    version = re.match(rb"go[\d.]+[a-z0-9]*", text)
    return version[0].decode() if version else ""


def _rustls_version(piece: bytes, at: int) -> str | None:
    version = re.compile(rb"/rustls-(\d{1,3}\.\d{1,3}\.\d{1,3}[-\w.]*)/src/").match(piece, at)
    return version[1].decode() if version else None


def _aws_lc_version(piece: bytes, at: int) -> str | None:
    version = re.compile(rb"AWS-LC (?:(\d{1,3}\.\d{1,3}\.\d{1,3})|KEM method)\0").match(piece, at)
    return (version[1] or b"").decode() if version else None


def _present(_piece: bytes, _at: int) -> str | None:
    return ""


_MARKS: dict[str, tuple[bytes, Callable[[bytes, int], str | None]]] = {
    "Go": (b"\xff Go buildinf:", _go_version),
    "Go crypto/tls": (b"crypto/tls.(*Conn).", _present),
    "rustls": (b"/rustls-", _rustls_version),
    "OpenSSL": (b"ssl/ssl_lib.c\0", _present),
    "AWS-LC": (b"AWS-LC ", _aws_lc_version),
    "BoringSSL": (b"ssl/ssl_lib.cc\0", _present),
}
# An image without any of these has none of the above, nor a libcrypto whose function names a debug file could provide.
TEXTS = (_MARKS["Go crypto/tls"][0], _MARKS["rustls"][0], b"ssl/ssl_lib.c", b"crypto/evp/")
