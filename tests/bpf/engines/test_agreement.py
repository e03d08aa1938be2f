# SPDX-License-Identifier: Apache-2.0
"""Exit sites against stock return probes, both on every call of a program of ours at the same time: the same counts, and the
same latencies but for what the probes themselves take.

No time is asserted. The calls take as long as a loop that is many times what a probe costs; as both see each call, whatever
else the machine does in it is in both.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ssllatency.elf.image import Image
from ssllatency.model.snapshot import Losses, Outcome
from ssllatency.probes.plan import Role
from ssllatency.probes.planner import plan_image
from tests.bpf.conftest import Subject, running
from tests.stock import distances, rows, with_return_probes

CALLS = 40
TURNS = (1_000_000, 3_000_000, 9_000_000)
MIDDLES = (1 / 6, 3 / 6, 5 / 6)  # the median of each number of turns
WITHIN = range(-1, 3)  # buckets: two sites on one instruction may run in either order


@pytest.fixture
def program(target_file: Path) -> Iterator[Subject]:
    with running(plan_image(Image.open(target_file))) as subject:
        assert all(probe.role is not Role.RETURN for each in subject.plan.operations for probe in each.probes)
        yield subject


def test_exit_sites_and_return_probes_agree(program: Subject) -> None:
    ours = program.attach()
    stock = Subject(program.process, with_return_probes(program.plan)).attach()
    for turns in TURNS:
        program.do("work", CALLS, turns)
    program.do("calls", 1000)
    program.do("recurse", 50)
    program.do("lanes", 300, 1)
    ours.detach()
    stock.detach()
    one, other = ours.read(), stock.read()
    ours.close()
    stock.close()
    assert {key: row.count for key, row in rows(one).items()} == {key: row.count for key, row in rows(other).items()}
    assert one.losses == other.losses == Losses()
    key = ("ECDSA_sign", Outcome.SUCCESS)
    assert rows(one)[key].count == CALLS * len(TURNS)
    apart = distances(rows(one)[key].exponential, rows(other)[key].exponential, MIDDLES)
    assert all(each in WITHIN for each in apart), apart
