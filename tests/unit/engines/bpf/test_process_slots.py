# SPDX-License-Identifier: Apache-2.0
"""The slots of processes: those of one block of PIDs have one each, and nobody knows who shares it with another block's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ssllatency.engines.bpf import process_slots
from ssllatency.engines.bpf.process_slots import SLOTS, slot_of

MOST_PIDS = 1 << 22
SOURCES = Path(__file__).parents[4] / "bpf"


@pytest.mark.parametrize("block", [0, 1, 3, MOST_PIDS // SLOTS - 1])
def test_processes_that_were_started_one_after_the_other_share_none(block: int) -> None:
    assert {slot_of(pid) for pid in range(block * SLOTS, (block + 1) * SLOTS)} == set(range(SLOTS))


def test_pids_with_the_same_lowest_bits_are_spread_over_all_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_slots, "secret", lambda: 0x9E3779B97F4A7C15)
    assert {slot_of(pid) for pid in range(7, MOST_PIDS, SLOTS)} == set(range(SLOTS))


def test_each_run_has_a_secret_of_its_own_and_keeps_it() -> None:
    secrets = set()
    try:
        for _ in range(3):
            process_slots.secret.cache_clear()
            secrets.add(process_slots.secret())
            assert process_slots.secret() in secrets
    finally:
        process_slots.secret.cache_clear()
    assert len(secrets) == 3
    assert all(secret % 2 and secret < 1 << 64 for secret in secrets)


def test_the_kernel_draws_the_seed_of_every_hash_map() -> None:
    """Without BPF_F_ZERO_SEED: else a process could choose pointers and names whose hashes are equal."""
    files = [*SOURCES.rglob("*.h"), *SOURCES.rglob("*.c")]
    flags = [found for file in files for found in re.findall(r"map_flags, (.+)\)", file.read_text())]
    assert flags
    assert set(flags) <= {"BPF_F_MMAPABLE", "BPF_F_NO_PREALLOC"}
