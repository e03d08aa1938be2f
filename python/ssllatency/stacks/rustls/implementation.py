# SPDX-License-Identifier: Apache-2.0
"""The marks of a program with rustls: the paths of its source in the messages of panics."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ssllatency.stacks.base import Implementation, Mark


def _version(piece: bytes, at: int) -> str | None:
    version = re.compile(rb"/rustls-(\d{1,3}\.\d{1,3}\.\d{1,3}[-\w.]*)/src/").match(piece, at)
    return version[1].decode() if version else None


class Rustls(Implementation):
    """rustls."""

    marks = {"rustls": Mark(b"/rustls-", _version)}  # noqa: RUF012
    texts = (marks["rustls"].text,)
    instead = (
        "Of rustls, which is compiled into programs, no handshake can be followed; trace shows private-key operations and key"
        " exchanges of a program with symbols that does them by aws-lc-rs. Where a program logs as the environment"
        " variable RUST_LOG says, RUST_LOG=rustls=debug has a line for the cipher suite of each handshake."
    )

    def identify(self, versions: Mapping[str, str]) -> tuple[str, str] | None:
        """With the version in the path."""
        return ("rustls", versions["rustls"]) if "rustls" in versions else None
