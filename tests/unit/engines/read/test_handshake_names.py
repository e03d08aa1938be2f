# SPDX-License-Identifier: Apache-2.0
"""Causes in words: the library's own names first, and what is known without it."""

from __future__ import annotations

import pytest

from ssllatency import abi
from ssllatency.engines.read.names import cause
from ssllatency.openssl.names.names import Names

SSL = abi.Error.LIBRARY_SSL << abi.Error.LIBRARY


def alert_of(names: Names, error: int, alert: int, *, sent: bool) -> tuple[str, bool]:
    key = abi.CauseKey(error=error, alert=alert, sent=sent, ending=abi.Ending.FAILURE, reason=abi.Reason.SSL, state=0xFFFF)
    found = cause(key, abi.Tally(1, 1), names)
    return found.alert, found.sent


@pytest.mark.parametrize(("known", "alert", "words"), [
    ({40: "handshake failure"}, 40, "handshake failure"),
    ({116: "its own words"}, 116, "its own words"),
    ({}, 116, "certificate required"),
    ({}, 109, "missing extension"),
    ({}, 200, "alert 200"),
])  # fmt: skip
def test_alerts(known: dict[int, str], alert: int, words: str) -> None:
    names = Names(alerts=known)
    assert alert_of(names, SSL | 199, alert, sent=True) == (words, True)
    assert alert_of(names, SSL | 1000 + alert, 0, sent=False) == (words, False)
