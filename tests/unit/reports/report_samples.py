# SPDX-License-Identifier: Apache-2.0
"""The measurements behind the golden reports. Run as a program it writes the reports anew, to be read before they are kept:

PYTHONPATH=python python tests/unit/reports/report_samples.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from ssllatency.model.histogram import ExponentialHistogram, LinearHistogram
from ssllatency.model.snapshot import Losses, Missing, Outcome, Series, Snapshot, Target, TracedLibrary
from ssllatency.reports.text.trace import render

GOLDEN = Path(__file__).parent / "golden"

LIBSSL = TracedLibrary("/usr/lib/x86_64-linux-gnu/libssl.so.3", "5a6f", "")
LIBCRYPTO = TracedLibrary("/usr/lib/x86_64-linux-gnu/libcrypto.so.3", "9c01", "OpenSSL 3.0.19 27 Jan 2026")


def series_of(
    function: str, outcome: Outcome, values_ns: list[int], pid: int | None = 1240, reasons: Mapping[str, int] | None = None
) -> Series:
    """The series that these calls make, with the usual linear buckets."""
    return Series(
        function,
        outcome,
        pid,
        sum(values_ns),
        min(values_ns),
        max(values_ns),
        ExponentialHistogram.from_values(values_ns),
        LinearHistogram.from_values(0, 1000, 200, values_ns),
        reasons or {},
    )


def spread(count: int, least_ns: int, most_ns: int) -> list[int]:
    """`count` durations evenly between two."""
    return [least_ns + (most_ns - least_ns) * step // max(count - 1, 1) for step in range(count)]


def snapshot_of(*series: Series, **changes: object) -> Snapshot:
    """A measurement of nginx with these series."""
    targets = tuple(Target(pid, "nginx", (LIBSSL, LIBCRYPTO)) for pid in (1234, 1240, 1241))
    base = Snapshot("web1", "6.1.0-18-amd64", "libbpf", "2030-01-31T12:00:00Z", 10.0, targets, series)
    return replace(base, **changes)  # type: ignore[arg-type]


def busy() -> Snapshot:
    """One nginx under new connections."""
    handshakes = [*spread(1359, 620_000, 790_000), *spread(12, 800_000, 999_000), *spread(32, 1_000_000, 5_980_000)]
    return snapshot_of(
        series_of("SSL_do_handshake", Outcome.SUCCESS, handshakes),
        series_of("SSL_do_handshake", Outcome.RETRY, spread(1410, 9_000, 62_000), 1240, {"WANT_READ": 1405, "WANT_WRITE": 5}),
        series_of("SSL_do_handshake", Outcome.FAILURE, spread(3, 15_000, 240_000), 1240, {"SSL": 2, "SYSCALL": 1}),
        series_of("rsa_ossl_private_encrypt", Outcome.SUCCESS, spread(1403, 601_000, 861_000)),
        series_of("SSL_write", Outcome.SUCCESS, spread(700, 3_100, 41_000), 1240),
        series_of("SSL_write", Outcome.SUCCESS, spread(701, 3_000, 44_000), 1241),
        series_of("SSL_read", Outcome.SUCCESS, spread(1401, 900, 3_400)),
        series_of("SSL_read", Outcome.RETRY, spread(1401, 400, 2_000), 1240, {"WANT_READ": 1401}),
        series_of("SSL_read", Outcome.CLOSED, spread(9, 700, 900), 1240, {"ZERO_RETURN": 9}),
    )


def processes() -> Snapshot:
    """Two processes, one that has gone, and the folded rest."""
    return snapshot_of(
        series_of("SSL_read", Outcome.SUCCESS, spread(10, 1_000, 9_000), 1240),
        series_of("SSL_read", Outcome.SUCCESS, spread(40, 2_000, 250_000), 1241),
        series_of("SSL_write", Outcome.SUCCESS, [7_777], 1241),
        series_of("SSL_read", Outcome.RETRY, [800], 4711, {"WANT_READ": 1}),
        series_of("SSL_read", Outcome.SUCCESS, spread(5, 1_000_000, 9_000_000), None),
        losses=Losses(folded_processes=3),
    )


def troubled() -> Snapshot:
    """Everything that a report can have to admit, and times at the ends of the scale."""
    absent = [f"mbx_nistp{bits}_ecdsa_{kind}_mb8" for bits in (256, 384, 521) for kind in ("sign", "verify", "sign_ssl")]
    interval = series_of("ECDSA_sign", Outcome.SUCCESS, spread(1000, 21_000, 24_000))
    return snapshot_of(
        series_of("SSL_write", Outcome.SUCCESS, [10, 40, 64, 100]),
        series_of("SSL_accept", Outcome.SUCCESS, [2_000_000, 69_000_000_000, 75_000_000_000, 80_000_000_000]),
        series_of("SSL_accept", Outcome.FAILURE, [5_500_000, 3_000_000_000], 1240, {"unknown": 2}),
        replace(interval, min_ns=None, max_ns=None),
        duration_s=3725.5,
        targets=(
            *(Target(pid, "nginx", (LIBSSL,)) for pid in (88, *range(1240, 1300), *range(2000, 2040, 2))),
            Target(77, "caf\u00e9\x1b[31m", ()),
        ),
        missing=(
            *(Missing(name, LIBCRYPTO.path, "not in this library") for name in absent),
            Missing("ml_kem_decapsulate", LIBCRYPTO.path, "not in this library"),
            Missing("RSA_sign", LIBCRYPTO.path, "no way out could be covered: an indirect jump at 0x27ce90"),
            Missing("SSL_write_ex2", LIBSSL.path, "not in this library"),
        ),
        losses=Losses(unmatched_entries=1, unmatched_exits=2, map_full=70, events_dropped=4, folded_processes=1),
        in_flight=2,
        notes=("Some calls ran in ASYNC jobs.", "SSL_shutdown is left out of the totals because " + "it waits " * 12 + "long."),
    )


def untold() -> Snapshot:
    """Functions of which nothing tells how their calls ended, beside one of which it is known."""
    return snapshot_of(
        series_of("ring::agreement::agree_ephemeral", Outcome.UNKNOWN, spread(40, 31_000, 96_000)),
        series_of("rustls::server::hs::ExpectClientHello::handle", Outcome.UNKNOWN, spread(41, 310_000, 890_000)),
        series_of("aws_lc_ECDSA_sign", Outcome.SUCCESS, spread(7, 41_000, 66_000)),
    )


def idle() -> Snapshot:
    """No call at all."""
    return snapshot_of(in_flight=1, missing=(Missing("SSL_write_ex2", LIBSSL.path, "not in this library"),))


REPORTS: Mapping[str, Callable[[], str]] = {
    "busy": lambda: render(busy()),
    "processes": lambda: render(processes(), by_process=True),
    "processes_added_up": lambda: render(processes()),
    "troubled": lambda: render(troubled()),
    "untold": lambda: render(untold()),
    "idle": lambda: render(idle()),
}

if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name, report in REPORTS.items():
        (GOLDEN / f"{name}.txt").write_text(report(), encoding="ascii")
