# SPDX-License-Identifier: Apache-2.0
"""A command that is killed at one of its system calls, or of which one fails: nothing of it stays, the server serves on, and a
call that failed is one sentence. A few points of each kind; kills.py, run by hand, takes hundreds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import programs
from tests.live.safety.kills import COMMANDS, Ground, Point, ground

pytestmark = pytest.mark.usefixtures("tracing")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, certificates: Path) -> Iterator[Ground]:
    programs.needed("strace", "bpftool")
    with ground(tmp_path_factory.mktemp("kills"), certificates) as place:
        yield place


@pytest.fixture(scope="module")
def calls(place: Ground) -> Counter[str]:
    place.calls_of(COMMANDS["trace"])  # which keeps the plans
    return place.calls_of(COMMANDS["trace"])


def point(calls: Counter[str], call: str, part: float, error: str = "") -> Point:
    """After that part of the calls of this name."""
    if not calls[call]:
        pytest.skip(f"nothing calls {call} here")
    return Point(call, max(1, int(part * calls[call])), error)


# While maps and programs are loaded, and probes attached; and at the very end.
@pytest.mark.parametrize(("call", "part"), [("bpf", 0.5), ("bpf", 0.95), ("exit_group", 0)])
def test_nothing_stays_of_a_command_that_is_killed(place: Ground, calls: Counter[str], call: str, part: float) -> None:
    for earlier in (1.0, 0.9, 0.8):  # not each run makes as many calls
        ended = place.end_at(point(calls, call, earlier * part), COMMANDS["trace"])
        assert ended.wrong == []
        if ended.status:
            break
    assert ended.status < 0


# While handshakes one by one are printed; and as it is about to end the command that it has run.
@pytest.mark.parametrize(("command", "at"), [("snoop", Point("epoll_ctl", 1)), ("watch", Point("kill", 1))])
def test_nothing_stays_of_other_commands_either(place: Ground, command: str, at: Point) -> None:
    ended = place.end_at(at, place.words(COMMANDS[command]))
    assert ended.wrong == []
    assert ended.status < 0


@pytest.mark.parametrize(
    ("call", "part", "error"),
    [("bpf", 0.6, "ENOMEM"), ("bpf", 0.95, "EMFILE"), ("clone3", 0, "EAGAIN"), ("epoll_ctl", 0, "EIO")],
)
def test_a_call_that_fails_is_a_sentence(place: Ground, calls: Counter[str], call: str, part: float, error: str) -> None:
    ended = place.end_at(point(calls, call, part, error), COMMANDS["trace"])
    assert ended.wrong == []
