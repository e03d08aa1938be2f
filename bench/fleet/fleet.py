#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A fleet in simulation: hosts that replay recordings, all of them in this one process, scraped by one real Prometheus.

    build/venv/bin/python bench/fleet/fleet.py [--hosts 200] [--loops 8] [--interval 2]

Each host's recording is made up from its own seed: other numbers of handshakes, other times. What Prometheus then says of the
fleet is compared with what `ssllatency merge` says of the same recordings, bucket by bucket. What the fleet has cost Prometheus
in memory, processor time and disk is printed, by host; docs/use/fleet.md has it.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from tests.measured.handshakes import handshakes_of
from tests.measured.recordings import interval_of
from tests.prometheus.exporters import exporters
from tests.prometheus.programs import versions
from tests.prometheus.server import Server, prometheus, scraping
from tests.prometheus.traffic import BY, PROCESSES, Processes, calls, shake

from bench.page import machine
from ssllatency.export.metrics.exposition import Exposition, Own
from ssllatency.export.metrics.families import BY_NAME, FAMILIES, MetricKind
from ssllatency.export.metrics.ledger import added
from ssllatency.export.metrics.points import Distribution, Point, Reading
from ssllatency.model.handshakes import Ending, Part
from ssllatency.model.histogram import ExponentialHistogram
from ssllatency.model.recording import Recording
from ssllatency.model.snapshot import Target
from ssllatency.output import recordings
from ssllatency.reports.documents.recording import to_lines

TOP = Path(__file__).resolve().parents[2]
INTERVALS = 12  # of each recording
OF_THE_FLEET = 'sum(ssllatency_handshake_duration_seconds{outcome="success"})'
A_DAY_S, A_SCRAPE_S, A_BLOCK_S = 86400, 15, 7200
_HISTOGRAMS = "|".join(family.prometheus_name for family in FAMILIES if family.kind is MetricKind.HISTOGRAM)
_TICKS_S = 1 / os.sysconf("SC_CLK_TCK")


def recorded(file: Path, host: str, seed: int) -> None:
    """Writes a made-up recording, of handshakes by version, resumption and process."""
    random, made = Random(seed), []
    many, slow = random.randint(10, 40), random.lognormvariate(0, 0.5)
    for number in range(INTERVALS):
        shakes = [
            shake(random, pid, resumed_share=0.5, failing_share=0.02, slow=slow, offload=False)
            for pid in PROCESSES
            for _ in range(many)
        ]
        series = [of_function for pid in PROCESSES for of_function in calls(random, many, pid, failing=1)]
        targets = tuple(Target(pid, comm, ()) for pid, (comm, _) in PROCESSES.items())
        interval = interval_of(number, (), series, host)
        made.append(replace(interval, targets=targets, handshakes=handshakes_of(shakes, BY)))
    file.write_text("".join(to_lines(Recording.of(made, file.name), by_process=True)))


class Replay:
    """A host that shows one interval more of its recording at each reading, the whole recording `loops` times."""

    def __init__(self, file: Path, loops: int) -> None:
        intervals = recordings.read(str(file)).intervals
        exposition = Exposition(Processes(), 2000, 300.0)
        self._steps = []
        for total in accumulate(intervals, lambda total, interval: Recording.of([total, interval]).total()):
            self._steps.append(exposition.read(total, exposition.gone(), Own(0, 0.004)))
        self._whole = {(point.family, point.labels): point.value for point in self._steps[-1].points}
        self._left, self._lock = loops * len(intervals), threading.Lock()
        self._shown = 0

    @property
    def is_over(self) -> bool:
        """Whether all of it has been shown."""
        return not self._left

    def read(self) -> Reading:
        """What is shown next."""
        with self._lock:
            loop, step = divmod(self._shown, len(self._steps))
            self._left = max(0, self._left - 1)
            self._shown += bool(self._left)
        shown = self._steps[step]
        return replace(shown, points=tuple(self._after(loop, point) for point in shown.points))

    def _after(self, loops: int, point: Point) -> Point:
        if not loops or BY_NAME[point.family].kind is MetricKind.GAUGE:
            return point
        return replace(point, value=added([_times(loops, self._whole[point.family, point.labels]), point.value]))


def _times(factor: int, value: Distribution | float) -> Distribution | float:
    if not isinstance(value, Distribution):
        return factor * value
    buckets = value.buckets
    counts = tuple(factor * count for count in buckets.counts)
    histogram = ExponentialHistogram(counts, buckets.offset, factor * buckets.underflow, factor * buckets.overflow)
    return Distribution(factor * value.total_ns, histogram)


@dataclass(frozen=True)
class Fleet:
    """What was found. Buckets are counts by Prometheus' index: up to 2^(index/16) s."""

    hosts: int
    scrapes: int
    series: int
    histograms: int
    merged: Mapping[int, int]
    scraped: Mapping[int, int]
    merged_p99_s: float
    scraped_p99_s: float
    rss_bytes: int
    cpu_s: float
    wal_bytes: int
    chunk_bytes: int
    index_bytes: int


def simulated(folder: Path, hosts: int, loops: int, interval_s: float) -> Fleet:
    """Scrapes a fleet until its recordings are over."""
    files = {f"host{number}": folder / f"host{number}.jsonl" for number in range(hosts)}
    for seed, (host, file) in enumerate(files.items()):
        recorded(file, host, seed)
    replays = {host: Replay(file, loops) for host, file in files.items()}
    paths = {host: f"/metrics/{host}" for host in files}
    with exporters({paths[host]: replay.read for host, replay in replays.items()}) as address:
        configuration = scraping(address, paths, f"{interval_s * 1000:.0f}ms")
        with prometheus(folder / "prometheus", configuration, options=["--web.enable-admin-api"]) as server:
            before = _rss(server)
            most_s = 60 + 4 * loops * INTERVALS * interval_s
            server.wait_for(lambda: all(replay.is_over for replay in replays.values()), most_s)
            server.wait_for(lambda: _nothing_changes(server, interval_s))
            return _found(folder, server, list(files.values()), loops, _rss(server) - before)


def _nothing_changes(server: Server, interval_s: float) -> bool:
    """Whether Prometheus has scraped all hosts since they are over."""
    window = f"[{max(4 * interval_s, 2):.0f}s]"
    return not server.query(f"changes(ssllatency_handshake_duration_seconds{window}) > 0") and not server.query("up == 0")


def _found(folder: Path, server: Server, files: Sequence[Path], loops: int, rss_bytes: int) -> Fleet:
    merged = _merged(folder, files)
    bounds = merged.quantile_range(0.99)
    assert bounds
    cpu_s = _cpu_s(server)
    blocks = _snapshot(folder, server)
    return Fleet(
        hosts=len(files),
        scrapes=loops * INTERVALS,
        series=int(server.value('count({job="ssllatency"})')),
        histograms=int(server.value(f'count({{__name__=~"{_HISTOGRAMS}"}})')),
        merged={index: loops * count for index, count in enumerate(merged.counts, merged.offset + 1) if count},
        scraped=_buckets(server),
        merged_p99_s=(merged.quantile(0.99) or math.nan) / 1e9,
        scraped_p99_s=server.value(f"histogram_quantile(0.99, {OF_THE_FLEET})"),
        rss_bytes=rss_bytes,
        cpu_s=cpu_s,
        wal_bytes=_size(folder / "prometheus" / "data" / "wal"),
        chunk_bytes=sum(_size(block / "chunks") for block in blocks),
        index_bytes=sum((block / "index").stat().st_size for block in blocks),
    )


def _merged(folder: Path, files: Sequence[Path]) -> ExponentialHistogram:
    """The fleet's successful handshakes, by the command."""
    output = folder / "merged.jsonl"
    subprocess.run([TOP / "tools" / "ssllatency", "merge", *files, "-o", output], check=True, stderr=subprocess.DEVNULL)
    handshakes = recordings.read(str(output)).total().handshakes
    assert handshakes
    groups = [group.parts[Part.WALL].exponential for group in handshakes.groups if group.ending is Ending.SUCCESS]
    return ExponentialHistogram.added(groups)


def _buckets(server: Server) -> dict[int, int]:
    (series,) = server.query(OF_THE_FLEET)
    buckets = series["histogram"][1]["buckets"]
    return {round(16 * math.log2(float(upper))): round(float(count)) for _, _, upper, count in buckets}


def _snapshot(folder: Path, server: Server) -> list[Path]:
    """Has Prometheus write what it holds in memory as blocks, as it does every two hours."""
    name = server.get("/api/v1/admin/tsdb/snapshot", method="POST")["data"]["name"]
    return [path.parent for path in (folder / "prometheus" / "data" / "snapshots" / name).glob("*/index")]


def _rss(server: Server) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))


def _cpu_s(server: Server) -> float:
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICKS_S


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def rows(fleet: Fleet) -> str:
    """The table of docs/use/fleet.md."""
    hosts, samples = fleet.hosts, fleet.series * fleet.scrapes
    a_day = A_DAY_S / A_SCRAPE_S / fleet.scrapes * fleet.chunk_bytes + A_DAY_S / A_BLOCK_S * fleet.index_bytes
    cells = {
        "series, of them histograms": f"{fleet.series / hosts:.0f}, {fleet.histograms / hosts:.0f}",
        "memory (RSS) of Prometheus": f"{fleet.rss_bytes / hosts / 1024:.0f} KiB",
        "memory a series": f"{fleet.rss_bytes / fleet.series / 1024:.1f} KiB",
        "processor time a scrape": f"{fleet.cpu_s / hosts / fleet.scrapes * 1000:.1f} ms",
        "disk a sample, in blocks without index": f"{fleet.chunk_bytes / samples:.1f} B",
        "index, each block": f"{fleet.index_bytes / hosts / 1024:.1f} KiB",
        "write-ahead log a scrape": f"{fleet.wal_bytes / hosts / fleet.scrapes / 1024:.1f} KiB",
        f"disk a day, scraped every {A_SCRAPE_S} s": f"{a_day / hosts / 2**20:.1f} MiB",
    }
    return "\n".join(["| of each host | |", "|---|---:|", *(f"| {name} | {value} |" for name, value in cells.items())])


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulates a fleet that one Prometheus scrapes.")
    parser.add_argument("--hosts", type=int, default=200)
    parser.add_argument("--loops", type=int, default=8, help=f"how often recordings of {INTERVALS} intervals are replayed (8)")
    parser.add_argument("--interval", type=float, default=2.0, help="seconds between scrapes (2)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fleet = simulated(Path(folder), arguments.hosts, arguments.loops, arguments.interval)
    print(f"{machine()}\n- Prometheus: {versions('sid').split()[0]}\n")
    print(f"{fleet.hosts} hosts, {fleet.scrapes} scrapes each, {arguments.interval:g} s apart.\n\n{rows(fleet)}\n")
    print(f"p99 of the fleet: merge {fleet.merged_p99_s * 1000:.3f} ms, Prometheus {fleet.scraped_p99_s * 1000:.3f} ms")
    print(f"{sum(fleet.scraped.values())} handshakes; all buckets are equal: {fleet.merged == fleet.scraped}")
    return int(fleet.merged != fleet.scraped)


if __name__ == "__main__":
    sys.exit(main())
