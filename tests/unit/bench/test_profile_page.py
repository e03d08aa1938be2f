# SPDX-License-Identifier: Apache-2.0
"""The page that shows where the time of a hit goes."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.measuring.tracers import FLOOR, SSLLATENCY
from bench.profile import samples
from bench.profile.page import UNTRACED, Profile, render


@pytest.mark.parametrize(
    ("symbol", "kind"),
    [
        ("bpf_prog_at_exit", samples.OUR_PROGRAMS),
        ("read_tsc", samples.CLOCK),
        ("ktime_get_mono_fast_ns", samples.CLOCK),
        ("lookup_nulls_elem_raw", samples.MAPS),
        ("uprobe_prog_run", samples.PROBES),
        ("bpf_get_attach_cookie_uprobe_multi", samples.PROBES),
        ("irqentry_exit_to_user_mode", samples.ENTRY_AND_EXIT),
        ("handle_softirqs", samples.REST),
        (samples.USER, samples.USER),
    ],
)
def test_each_symbol_has_its_kind(symbol: str, kind: str) -> None:
    assert samples.kind_of(symbol) == kind


def test_samples_become_nanoseconds_of_a_call() -> None:
    profile = Profile(1000.0, Counter({samples.USER: 75, "read_tsc": 25}))
    assert profile.by_symbol_ns == {samples.USER: 750.0, "read_tsc": 250.0}
    assert samples.by_kind(profile.by_symbol_ns)[samples.CLOCK] == 250.0
    assert sum(samples.by_kind(profile.by_symbol_ns).values()) == 1000.0


def test_what_differs_in_every_round_is_told_and_noise_is_not() -> None:
    rounds = [
        {
            UNTRACED: Profile(500.0, {samples.USER: 100}),
            FLOOR: Profile(1000.0, {samples.USER: 60 - noise, "bpf_prog_at_nothing": 10, "find_uprobe_rcu": 30 + noise}),
            SSLLATENCY: Profile(2000.0, {samples.USER: 30, "bpf_prog_at_exit": 55, "find_uprobe_rcu": 15}),
        }
        for noise in (-2, 0, 2)
    ]
    shared = [
        {(name, is_shared): 100.0 + n for name in (UNTRACED, FLOOR, SSLLATENCY) for is_shared in (True, False)} for n in (1, 2)
    ]
    served = [{name: Profile(4000.0, profile.samples) for name, profile in one.items()} for one in rounds]
    text = render(rounds, served, shared, "- a machine", 2.0)
    assert "| `bpf_prog_at_exit` | the BPF programs' own instructions | 0 | 1,100 | 1,100 (1,100 to 1,100) |" in text
    assert "| `find_uprobe_rcu` | finding and running what is to be done at a site | 300 | 300 | (-50 to 50) |" in text
    assert "| a call | 500 | 1,000 | 2,000 | 1,000 (1,000 to 1,000) |" in text
    assert "| a request | 4,000 | 4,000 | 4,000 | (0 to 0) |" in text
    assert "| `bpf_prog_at_exit` | the BPF programs' own instructions | 0 | 2,200 | 2,200 (2,200 to 2,200) |" in text
    assert "| threads of one process | 102 | 102 | 102 | (0 to 0) |" in text
