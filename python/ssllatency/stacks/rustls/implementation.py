# SPDX-License-Identifier: Apache-2.0
"""The marks of a program with rustls: the paths of its source in the messages of panics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ssllatency.stacks.base import Implementation, Mark

if TYPE_CHECKING:
    from ssllatency.elf.image import Image

_LONGEST = 64
_releases: WeakKeyDictionary[Image, str] = WeakKeyDictionary()


def release_in(image: Image) -> str:
    """The version of the rustls whose source an image names first, "" where it names none. ElfError where it is cut short."""
    if image not in _releases:
        found = (_MARK.first(piece) for _, piece in image.pieces(_LONGEST))
        _releases[image] = next(filter(None, found), "")
    return _releases[image]


def _version(piece: bytes, at: int) -> str | None:
    version = re.compile(rb"/rustls-(\d{1,3}\.\d{1,3}\.\d{1,3}[-\w.]*)/src/").match(piece, at)
    return version[1].decode() if version else None


_MARK = Mark(b"/rustls-", _version)


class Rustls(Implementation):
    """rustls."""

    marks = {"rustls": _MARK}  # noqa: RUF012
    texts = (_MARK.text,)
    instead = (
        "Of rustls, which is compiled into programs, no handshake can be followed as a whole; trace shows, but not how they"
        " ended, the ClientHellos that a server has handled, and key exchanges and signatures by ring, in files that have"
        " symbols or are position-independent code for x86-64 with unwind tables; those by aws-lc-rs where there are symbols."
        " Where a program logs as the environment variable RUST_LOG says, RUST_LOG=rustls=debug has a line for the cipher suite"
        " of each handshake."
    )

    def identify(self, versions: Mapping[str, str]) -> tuple[str, str] | None:
        """With the version in the path."""
        return ("rustls", versions["rustls"]) if "rustls" in versions else None
