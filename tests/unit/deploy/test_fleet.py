# SPDX-License-Identifier: Apache-2.0
"""A small fleet: what Prometheus says of it is what `ssllatency merge` says of the same recordings."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from tests.prometheus.programs import needed_program

from bench.fleet.fleet import simulated


@pytest.mark.slow
def test_prometheus_and_merge_say_the_same_of_a_fleet(tmp_path: Path) -> None:
    needed_program("prometheus")
    fleet = simulated(tmp_path, hosts=5, loops=1, interval_s=0.5)
    assert fleet.scraped == fleet.merged
    assert sum(fleet.scraped.values()) > 1000
    bucket = math.ceil(16 * math.log2(fleet.scraped_p99_s))
    assert math.ceil(16 * math.log2(fleet.merged_p99_s)) == bucket
    assert 2.0 ** ((bucket - 1) / 16) < fleet.scraped_p99_s <= 2.0 ** (bucket / 16)
