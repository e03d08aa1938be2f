# SPDX-License-Identifier: Apache-2.0
"""The other processes that pay for shared links: found within bounds, and told of in one sentence."""

from __future__ import annotations

import os

import pytest

from ssllatency.code.machine import Cost
from ssllatency.engines.base import TracedImage
from ssllatency.output.printing import tell
from ssllatency.probes.costs import HitCosts
from ssllatency.probes.plan import FilePlan, OperationPlan, Probe, Role
from ssllatency.reports.text.page import WIDTH
from ssllatency.targets import Process, mapped_files
from ssllatency.tracing.links import others
from ssllatency.tracing.links.others import OtherUsers, maps_any, who_pays

COSTS = HitCosts(400, 650, 14_000, 300, 100)


def planned(name: str, cost: Cost) -> OperationPlan:
    sites = (Probe(1, 1, Role.ENTRY, "push rbx", Cost.EMULATED), Probe(2, 2, Role.EXIT, "ret", cost, return_register="rax"))
    return OperationPlan(name, 0, 1, "", sites)


def images(*operations: OperationPlan) -> list[TracedImage]:
    return [TracedImage(FilePlan("/lib/libssl.so.3", "", "", "libssl", operations, ()), "/lib/libssl.so.3", (1,))]


@pytest.mark.parametrize(
    ("operations", "costs", "price"),
    [
        ((planned("SSL_read", Cost.EMULATED),), COSTS, "1.30 us a call"),
        (
            (planned("SSL_read", Cost.EMULATED), planned("SSL_read_ex", Cost.SINGLE_STEPPED)),
            COSTS,
            "up to 14.7 us a call",
        ),
        ((planned("SSL_free", Cost.SINGLE_STEPPED),), COSTS, "1.30 us a call"),
        ((planned("SSL_read", Cost.EMULATED),), None, "two traps a call"),
    ],
)
def test_the_price_is_this_machines(operations: tuple[OperationPlan, ...], costs: HitCosts | None, price: str) -> None:
    sentence = who_pays([Process(7, 1, "curl", 0)], images(*operations), costs)
    assert sentence.startswith(f"The probes cost 1 other process {price}: curl")
    assert sentence.endswith("; --links process spares them.")
    assert len(f"Note: {sentence}") <= WIDTH


def test_many_others_are_a_short_sentence() -> None:
    many = [Process(pid, 1, f"server-{pid % 100}", 0) for pid in range(1, 5001)]
    sentence = who_pays(many, [], None)
    assert sentence.startswith("The probes cost 5000 other processes two traps a call;")
    assert len(f"Note: {sentence}") <= WIDTH


def test_as_many_names_as_one_line_has_room_for() -> None:
    six = [Process(number, 1, ("python", "postgres: writer", "x" * 40)[number % 3], 0) for number in range(6)]
    ending = "; --links process spares them."
    assert who_pays(six[::3], [], COSTS) == f"The probes cost 2 other processes 1.30 us a call: python{ending}"
    assert who_pays(six, [], COSTS) == f"The probes cost 6 other processes 1.30 us a call: python, others{ending}"
    assert who_pays(six[2::3], [], None) == f"The probes cost 2 other processes two traps a call{ending}"


def test_an_option_is_only_named_where_the_command_has_it() -> None:
    curl = [Process(7, 1, "curl", 0)]
    with_option, without = (who_pays(curl, [], None, has_links_option=has) for has in (True, False))
    assert with_option == f"{without.removesuffix('.')}; --links process spares them."


def test_a_name_controls_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    tell(who_pays([Process(7, 1, "x\x1b[2J\r\n\u202ey", 0)], [], None, has_links_option=False))
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.rstrip("\n").isprintable()
    assert "\\x1b[2J\\x0d\\x0a\\u202ey (PID 7)" in said


def test_a_look_ends_in_time_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """And those that were left out have their turn at the next one."""
    now = 0.0

    def slow(pid: int, _files: object) -> bool:
        nonlocal now
        now += 0.001
        return pid % 1000 == 0

    monkeypatch.setattr(others, "_pids", lambda: list(range(1, 3001)))
    monkeypatch.setattr(others, "maps_any", slow)
    monkeypatch.setattr(others, "process_of", lambda pid: Process(pid, 1, "curl", 0))
    monkeypatch.setattr(others.time, "monotonic", lambda: now)
    users = OtherUsers({(8, 1, 11)}, (), lambda _: False)
    looks = 0
    while not (found := users.look()):
        looks += 1
        assert now < looks * 0.2
    assert looks > 10
    assert sorted(process.pid for process in found) == [1000, 2000, 3000]


def test_files_that_come_later_are_looked_for_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {(8, 1, 11)}
    monkeypatch.setattr(others, "_pids", lambda: [300])
    monkeypatch.setattr(others, "maps_any", lambda _, wanted: (8, 1, 22) in wanted)
    monkeypatch.setattr(others, "process_of", lambda pid: Process(pid, 1, "curl", 0))
    users = OtherUsers(files, (), lambda _: False)
    assert users.look() == []
    files.add((8, 1, 22))
    assert [process.pid for process in users.look()] == [300]


def test_this_command_is_no_other() -> None:
    """Nor what it has started, which is why nobody pays for what only it maps."""
    own = mapped_files(os.getpid())[0]
    assert maps_any(os.getpid(), {own.identity})
    users = OtherUsers({own.identity}, (), lambda pid: pid != os.getpid())
    assert users.look() == []


def test_who_has_ended_or_may_not_be_inspected_maps_nothing() -> None:
    assert not maps_any(1 << 22, {(8, 1, 11)})
