# SPDX-License-Identifier: Apache-2.0
"""Causes in words: the library's own names first, and what is known without it."""

from __future__ import annotations

import pytest

from ssllatency import abi
from ssllatency.engines.read.names import cause
from ssllatency.stacks.names import Names

SSL = abi.Error.LIBRARY_SSL << abi.Error.LIBRARY


def alert_of(names: Names, error: int, alert: int, *, sent: bool) -> tuple[str, bool]:
    key = abi.CauseKey(error=error, alert=alert, sent=sent, ending=abi.Ending.FAILURE, end=abi.End.ERROR, state=0xFFFF)
    found = cause(key, abi.Tally(1, 1), names)
    return found.alert, found.sent


@pytest.mark.parametrize(("known", "alert", "words"), [
    ({40: "handshake failure"}, 40, "handshake failure"),
    ({116: "its own words"}, 116, "its own words"),
    ({}, 116, "certificate required"),
    ({}, 109, "missing extension"),
    ({}, 121, "ECH required"),
    ({}, 200, "alert 200"),
])  # fmt: skip
def test_alerts(known: dict[int, str], alert: int, words: str) -> None:
    names = Names(alerts=known)
    assert alert_of(names, SSL | 199, alert, sent=True) == (words, True)
    assert alert_of(names, SSL | 1000 + alert, 0, sent=False) == (words, False)


def test_a_reason_that_is_an_alert_without_a_text_is_named_by_it() -> None:
    """As that of ECH is in OpenSSL 4.0."""
    key = abi.CauseKey(error=SSL | 1121, ending=abi.Ending.FAILURE, end=abi.End.ERROR, state=0xFFFF)
    assert cause(key, abi.Tally(1, 1), Names(major=3)).reason == "alert ECH required"
    assert cause(key, abi.Tally(1, 1), Names({(20, 1121): "its own words"}, major=3)).reason == "its own words"
    other = abi.CauseKey(error=SSL | 999, ending=abi.Ending.FAILURE, end=abi.End.ERROR, state=0xFFFF)
    assert cause(other, abi.Tally(1, 1), Names(major=3)).reason == "reason 999"


@pytest.mark.parametrize(("peer", "left", "undelivered"), [
    (0, None, None),
    (abi.Peer.KNOWN, False, False),
    (abi.Peer.KNOWN | abi.Peer.LEFT, True, False),
    (abi.Peer.KNOWN | abi.Peer.UNDELIVERED, False, True),
    (abi.Peer.KNOWN | abi.Peer.LEFT | abi.Peer.UNDELIVERED, True, True),
])  # fmt: skip
def test_what_is_known_of_the_peer_of_one_that_was_freed(peer: int, left: bool | None, undelivered: bool | None) -> None:
    key = abi.CauseKey(ending=abi.Ending.ABANDONED, end=abi.End.NONE, state=0xFFFF, peer=peer)
    found = cause(key, abi.Tally(1, 1), Names())
    assert (found.reason, found.peer_left, found.undelivered) == ("freed", left, undelivered)
    assert found.left_by_peer is left


@pytest.mark.parametrize("end", [abi.End.TRANSPORT, abi.End.CLOSED])
def test_an_end_that_the_library_was_told_of_is_the_peers(end: abi.End) -> None:
    key = abi.CauseKey(ending=abi.Ending.ABANDONED, end=end, state=0xFFFF)
    assert cause(key, abi.Tally(1, 1), Names()).left_by_peer is True
