# SPDX-License-Identifier: Apache-2.0
"""Recordings made up of handshakes and calls whose times are known."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random

from ssllatency.model.handshakes import Part
from ssllatency.model.histogram import LinearHistogram
from ssllatency.model.recording import Recording
from ssllatency.model.snapshot import Outcome, Series, Snapshot
from tests.measured.handshakes import Shake, handshakes_of, times_of

_BEGAN = datetime(2030, 1, 31, 12, tzinfo=UTC)


def calls_of(function: str, values_ns: Sequence[int], outcome: Outcome = Outcome.SUCCESS, pid: int = 17) -> Series:
    """The series that these calls make."""
    times, linear = times_of(values_ns), LinearHistogram.from_values(0, 1000, 200, values_ns)
    return Series(function, outcome, pid, times.total_ns, times.min_ns, times.max_ns, times.exponential, linear)


def interval_of(
    number: int, shakes: Sequence[Shake], series: Sequence[Series] = (), host: str = "web1", duration_s: float = 1.0
) -> Snapshot:
    """The interval of that number, from 0, of those of a second each."""
    started = (_BEGAN + timedelta(seconds=number)).isoformat()
    return Snapshot(host, "6.1.0", "libbpf", started, duration_s, (), tuple(series), handshakes=handshakes_of(shakes))


def shakes_of(random: Random, number: int, key_ns: int = 700_000, scale: float = 1.0) -> list[Shake]:
    """Handshakes that take about so long for the private key, and twice as long for the peer. `scale` multiplies all."""
    return [
        Shake(
            {
                Part.PRIVATE_KEY: round(scale * key_ns * random.uniform(0.9, 1.1)),
                Part.REST: round(scale * 200_000 * random.uniform(0.9, 1.1)),
                Part.WAIT_PEER: round(scale * 1_400_000 * random.lognormvariate(0, 0.3)),
            }
        )
        for _ in range(number)
    ]


def recording_of(seed: int, intervals: int = 6, each: int = 40, key_ns: int = 700_000, host: str = "web1") -> Recording:
    """So many intervals of about so many handshakes each."""
    random = Random(seed)
    made = []
    for number in range(intervals):
        shakes = shakes_of(random, each + random.randint(-each // 10, each // 10), key_ns)
        signed = calls_of("rsa_ossl_private_encrypt", [one.times[Part.PRIVATE_KEY] for one in shakes])
        made.append(interval_of(number, shakes, [signed], host))
    return Recording.of(made, f"{host}.jsonl")
