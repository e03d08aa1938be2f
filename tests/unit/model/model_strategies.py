# SPDX-License-Identifier: Apache-2.0
"""Hypothesis strategies of the model's tests: raw durations, and the measurements that hold them."""

from __future__ import annotations

from hypothesis import strategies as st

from ssllatency.model.histogram import ExponentialHistogram, LinearHistogram
from ssllatency.model.snapshot import Losses, Missing, Outcome, Series, Snapshot, Target

# As often below 60 ns and past 64 s as between.
durations_ns = st.one_of(
    st.integers(0, 100),
    st.integers(0, 2**20),
    st.integers(2**20, 2**38),
    st.sampled_from([0, 1, 59, 60, 64 * 10**9, 64 * 10**9 + 1]),
)

_REASONS = {
    Outcome.SUCCESS: [],
    Outcome.UNKNOWN: [],
    Outcome.RETRY: ["WANT_READ", "WANT_ASYNC"],
    Outcome.CLOSED: ["ZERO_RETURN"],
    Outcome.FAILURE: ["SSL", "SYSCALL"],
}


def series_of(function: str, outcome: Outcome, pid: int | None, values_ns: list[int]) -> Series:
    """The series that these calls make."""
    names = _REASONS[outcome]
    reasons = {name: len(values_ns[at :: len(names)]) for at, name in enumerate(names) if values_ns[at :: len(names)]}
    return Series(
        function,
        outcome,
        pid,
        sum(values_ns),
        min(values_ns, default=None),
        max(values_ns, default=None),
        ExponentialHistogram.from_values(values_ns),
        LinearHistogram.from_values(0, 1000, 200, values_ns),
        reasons,
    )


_keys = st.tuples(
    st.sampled_from(["SSL_read", "SSL_do_handshake"]), st.sampled_from(Outcome), st.sampled_from([None, 17, 4711])
)
_calls = st.dictionaries(_keys, st.lists(durations_ns, min_size=1, max_size=12), max_size=6)
_count = st.integers(0, 1000)


@st.composite
def snapshots(draw: st.DrawFn, hosts: tuple[str, ...] = ("web1",)) -> Snapshot:
    """Measurements of a few functions on one of the hosts."""
    return Snapshot(
        host=draw(st.sampled_from(hosts)),
        kernel="6.1.0",
        engine="libbpf",
        started=draw(st.sampled_from(["2030-01-31T12:00:00Z", "2030-01-31T12:00:00+00:00", "2030-01-31T12:00:00.25+01:00"])),
        duration_s=draw(st.integers(0, 10**9)) / 1_000_000,
        targets=tuple(Target(pid, "nginx", ()) for pid in draw(st.sets(st.sampled_from([17, 4711])))),
        series=tuple(series_of(*key, values) for key, values in draw(_calls).items()),
        missing=tuple(Missing(name, "libcrypto.so.3", "not in this library") for name in draw(st.sets(st.sampled_from("ab")))),
        losses=Losses(*(draw(_count) for _ in range(5))),
        in_flight=draw(_count),
    )
