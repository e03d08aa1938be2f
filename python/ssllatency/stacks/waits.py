# SPDX-License-Identifier: Apache-2.0
"""The waits of calls, in the words that all stacks share. Each stack says which of its codes mean which wait (Codes.waits)."""

from __future__ import annotations

from ssllatency import abi
from ssllatency.abi import Wait
from ssllatency.data_class import dataclass


@dataclass(frozen=True)
class WaitMeaning:
    """A wait as people know it: its name, a sentence about it, and the part of a handshake's time that it counts in."""

    name: str
    sentence: str
    part: abi.Part


WAITS = {
    Wait.PEER: WaitMeaning("peer", "For bytes of the peer's.", abi.Part.WAIT_PEER),
    Wait.WINDOW: WaitMeaning("peer window", "For the peer to take bytes.", abi.Part.WAIT_WINDOW),
    Wait.CONNECTION: WaitMeaning(
        "connection", "For what the connection reads from and writes to to be connected or accepted.", abi.Part.WAIT_UNKNOWN
    ),
    Wait.OFFLOAD: WaitMeaning("offload", "For an operation that is done elsewhere.", abi.Part.WAIT_OFFLOAD),
    Wait.APPLICATION: WaitMeaning(
        "application", "For what one of the application's callbacks is still to say.", abi.Part.WAIT_APPLICATION
    ),
    Wait.LOOKUP: WaitMeaning(
        "lookup", "For a session or a certificate that the application looks up.", abi.Part.WAIT_APPLICATION
    ),
    Wait.HANDSHAKE: WaitMeaning(
        "handshake", "For the handshake to go on in another way: anew, elsewhere, without early data.", abi.Part.WAIT_UNKNOWN
    ),
    Wait.UNKNOWN: WaitMeaning("unknown", "What for can't be read of the connection.", abi.Part.WAIT_UNKNOWN),
}
