# SPDX-License-Identifier: Apache-2.0
"""Labels of who shook hands, in words: server names and protocols as peers sent them, made harmless, and the networks of
peers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field

from ssllatency import abi
from ssllatency.data_class import dataclass
from ssllatency.model.handshakes import NONE

_LOCAL = "unix socket"
_RESERVED = (NONE, "unknown", "other", _LOCAL)  # what reports say themselves
_ESCAPED = b'\\"'


def text_words(text: abi.Text) -> str:
    """The words of a label's text. A name is printable ASCII without spaces: bytes that aren't are \\xNN, as are backslashes
    and quotes; one that is among the words that reports use themselves is quoted. A name that was longer ends in "…"."""
    length, content = text.length, bytes(text.bytes)
    if text.kind == abi.TextKind.LOCAL:
        return _LOCAL
    if text.kind in (abi.TextKind.IPV4, abi.TextKind.IPV6):
        return f"{_address(content, text.kind)}/{length}"
    name = "".join(map(_character, content[:length]))
    return f'"{name}"' if name in _RESERVED else f"{name}{'…' if text.cut else ''}"


def _character(byte: int) -> str:
    return chr(byte) if 0x20 < byte < 0x7F and byte not in _ESCAPED else f"\\x{byte:02x}"


def _address(content: bytes, kind: int) -> str:
    from ipaddress import IPv4Address, IPv6Address  # when it is needed: after the probes are attached

    return str(IPv4Address(content[:4]) if kind == abi.TextKind.IPV4 else IPv6Address(content[:16]))


@dataclass
class Texts:
    """The words by number. `read` reads the table of texts: it grows."""

    read: Callable[[], Iterable[tuple[bytes, bytes]]]
    _words: dict[int, str] = field(default_factory=dict)

    def of(self, number: int) -> str | None:
        """The words for this number; NONE for 0, None for one that the table doesn't have."""
        if number and number not in self._words:
            self._words |= {
                int.from_bytes(value, "little"): text_words(abi.Text.from_buffer_copy(key)) for key, value in self.read()
            }
        return self._words.get(number) if number else NONE
