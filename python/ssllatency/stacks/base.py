# SPDX-License-Identifier: Apache-2.0
"""What a TLS stack is: all that the other rooms ask about one TLS library. registry.py lists those that there are.

A stack's methods bring in what they need when they are called: commands that only ask for its tables must start without the ELF
parser and the decoder.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ssllatency.abi import Outcome, Reason

if TYPE_CHECKING:
    from ssllatency.code.bodies import Bodies
    from ssllatency.code.values import FieldPath
    from ssllatency.elf.image import Image
    from ssllatency.stacks.names import Names


@dataclass(frozen=True)
class Codes:
    """The codes at `rwstate` in a connection, which tell why its last call didn't succeed.

    `reading` and `writing`: it waited for its BIO, which tells more. `reasons`: the other waits. `ends`: how the call ended, of
    codes that tell it themselves; where there are none, the connection's other fields tell it.
    """

    reading: int
    writing: int
    reasons: Mapping[int, Reason]
    ends: Mapping[int, tuple[Outcome, Reason]] = field(default_factory=dict)


class Stack(ABC):
    """One TLS library whose calls can be traced."""

    name: str
    """As plans have it, "openssl"."""
    codes: Codes
    inlines_handshake: bool
    """Whether SSL_accept and SSL_connect may have SSL_do_handshake built in, so that a probe in it misses their calls."""
    has_state_machine: bool
    """Whether all handshakes go through one function that the connection's methods lead to."""

    @abstractmethod
    def recognises(self, image: Image) -> bool:
        """Whether the image's functions may be this library's. Of several stacks that recognise it, it is the last one's."""

    @abstractmethod
    def connection(self, image: Image) -> Mapping[str, int]:
        """Byte offsets of what a connection shows, by the names of SslOffsets; what the image doesn't show is missing."""

    @abstractmethod
    def labels(self, image: Image) -> dict[str, FieldPath]:
        """Paths from a connection to its labels, by the label's name; those that are uncertain are missing."""

    @abstractmethod
    def names(self, image: Image) -> Names:
        """Names of the library's codes, as far as the image shows them. ElfError where its relocations are damaged."""

    def runs_handshakes_alone(self, image: Image, bodies: Bodies) -> bool:  # noqa: ARG002
        """Whether, without a state machine, reads and writes call SSL_do_handshake for a handshake instead of its own parts."""
        return False
