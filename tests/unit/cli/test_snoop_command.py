# SPDX-License-Identifier: Apache-2.0
"""Printing calls while a budget is kept: what ends a window isn't put off until all that it saw is printed."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from typing import Any, cast

import pytest

from ssllatency.cli.live import snoop
from ssllatency.engines.sessions.snoop import EventKeys, SnoopSession
from ssllatency.model.snapshot import Losses
from ssllatency.tracing.live import RunEnd

BATCHES = 5


class Session:
    """Batches wait in its ring; `polled` has how many had been taken when `poll` was called."""

    def __init__(self, due_s: float) -> None:
        self.due_s, self.keys, self.polled, self.taken = due_s, EventKeys(("SSL_read",)), list[int](), 0

    def batches(self) -> Iterator[bytes]:
        while self.taken < BATCHES:
            self.taken += 1
            yield b""

    def poll(self) -> None:
        self.polled.append(self.taken)

    def wait(self, timeout_s: float) -> bool:
        del timeout_s
        return True

    def detach(self) -> None:
        pass

    def losses(self) -> Losses:
        return Losses()

    def sampling(self) -> tuple[()]:
        return ()

    def in_flight(self) -> int:
        return 0


class Once:
    """A run that ends after its first look."""

    at = math.inf

    def __init__(self) -> None:
        self._looks = 0

    def has_come(self) -> bool:
        self._looks += 1
        return self._looks > 1


@pytest.mark.parametrize(("due_s", "polled"), [(0.0, [0, 1, 2, 3, 4, 5]), (math.inf, [0])], ids=["due", "not due"])
def test_what_is_due_is_done_between_batches(monkeypatch: pytest.MonkeyPatch, due_s: float, polled: list[int]) -> None:
    session = Session(due_s)
    arguments = argparse.Namespace(count=None, columns=None, json=True, by=())
    with open("/dev/null", "w") as nowhere:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdout", nowhere)
        snoop._Printer(cast(SnoopSession, session), arguments, cast(RunEnd, cast(Any, Once()))).print_all()
    assert session.polled == polled
