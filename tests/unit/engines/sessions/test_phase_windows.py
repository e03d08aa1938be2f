# SPDX-License-Identifier: Apache-2.0
"""When what watches handshakes begins and ends to keep within the budget."""

from __future__ import annotations

import math
from typing import cast

import pytest

from ssllatency.engines.attach.attachment import Attachment
from ssllatency.engines.sessions import phase_windows
from ssllatency.engines.sessions.phase_windows import PhaseWindows


class Begun:
    """Windows that note what is asked of them."""

    due_s = 7.0

    def __init__(self) -> None:
        self.calls: list[str] = []

    def start(self, _held: object) -> None:
        self.calls.append("start")

    def tick(self) -> None:
        self.calls.append("tick")

    def finish(self) -> None:
        self.calls.append("finish")


class Held:
    """An attachment that holds nothing back."""

    held = ()


@pytest.fixture(name="begun")
def _begun(monkeypatch: pytest.MonkeyPatch) -> list[Begun]:
    begun: list[Begun] = []

    def windows_of(*_: object, **__: object) -> Begun:
        begun.append(Begun())
        return begun[-1]

    monkeypatch.setattr(phase_windows, "windows_of", windows_of)
    return begun


def windows(budget: float | None = 0.05) -> PhaseWindows:
    return PhaseWindows(cast("Attachment", Held()), budget)


def test_the_first_poll_is_due_at_once_where_it_begins_to_keep_the_budget(begun: list[Begun]) -> None:
    phases = windows()
    assert phases.due_s == 0
    phases.begin(within_data=False)
    assert [window.calls for window in begun] == [["start"]]
    assert phases.due_s == begun[0].due_s
    assert windows(None).due_s == math.inf


def test_it_begins_once_and_anew_where_reads_and_writes_are_watched_as_well(begun: list[Begun]) -> None:
    phases = windows()
    for within_data in (False, False, True, True):
        phases.begin(within_data=within_data)
    assert [window.calls for window in begun] == [["start", "finish"], ["start"]]


def test_nothing_begins_once_it_is_over(begun: list[Begun]) -> None:
    """The last poll may be the first one, and comes when the probes are gone."""
    phases = windows()
    phases.finish()
    phases.begin(within_data=False)
    phases.tick(0)
    assert begun == []
    assert phases.due_s == math.inf
