# SPDX-License-Identifier: Apache-2.0
"""What each command and engine holds while it traces: memory of its own processes, and of the kernel on its account.

Every tracer is started twice on one nginx worker, without kept plans and with them, and is under load before it is looked at.
Its own memory is the proportional set size: what processes share is divided among them, so that the sum over the tracer and
its children counts each page once. The kernel's is what the descriptors of these processes stand for: maps and programs by
/proc/PID/fdinfo, and the perf buffers that they map.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.live.clients.counted import wrk
from tests.live.servers.nginx import Nginx

from bench.measuring.tracers import OTHER_ENGINES, PROGRAM, Run, Tracer, attached, forget, lacking, stock
from bench.measuring.works import CLOSE_EACH, CONNECTIONS, Cpus
from ssllatency.load.matrix.servers.process import free_ports

ROUNDS = 3
LOAD_S = 1
REST_S = 2  # after the start, so that the processes that read names for the report are gone
SETTLE_S = 0.5  # after the load, so that what was made for a moment is gone
NEVER = "handshake p99 > 50s for 50s"  # a condition that holds of none of these runs
_RING_BUFFER = 27  # BPF_MAP_TYPE_RINGBUF
_MAPPED_MAP = re.compile(r"^[0-9a-f]+-[0-9a-f]+ .* anon_inode:bpf-map\n(?:\w+:.*\n)*?Rss:\s+(\d+) kB$", re.MULTILINE)
_PERF_BUFFER = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) .* anon_inode:\[perf_event\]$", re.MULTILINE)


@dataclass
class Held:
    """Bytes: what a tracer held, one number for each run. `first` and `later` are the most until it was attached, `rest` what
    it held before the load; `rings` and `maps`, the others of them, are the kernel's."""

    first: list[int] = field(default_factory=list)
    later: list[int] = field(default_factory=list)
    rest: list[int] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)
    proportional: list[int] = field(default_factory=list)
    rings: list[int] = field(default_factory=list)
    maps: list[int] = field(default_factory=list)
    programs: list[int] = field(default_factory=list)
    perf: list[int] = field(default_factory=list)

    def kernel(self) -> list[int]:
        """Everything that the kernel holds."""
        return [sum(parts) for parts in zip(self.rings, self.maps, self.programs, self.perf, strict=True)]


def rows() -> tuple[Tracer, ...]:
    """The commands, each with the engines that it and this machine have, and bpftrace's own script."""
    options = ("-p", "{pid}", "-d", "600")
    trace = (PROGRAM, "trace", *options, "--json")
    listen = f"127.0.0.1:{free_ports(1)[0]}"
    engines = ("libbpf", *(engine for engine in OTHER_ENGINES if not lacking(engine)))
    return (
        *(Tracer(f"trace, {engine}", (*trace, "--engine", engine)) for engine in engines),
        Tracer("handshakes, libbpf", (PROGRAM, "handshakes", *options, "--json")),
        Tracer("snoop, libbpf", (PROGRAM, "snoop", *options, "--json")),
        Tracer("record, libbpf", (PROGRAM, "record", *options, "-o", "{directory}/kept.jsonl", "--force")),
        Tracer("watch, libbpf", (PROGRAM, "watch", *options, "--when", NEVER, "-o", "{directory}/incidents")),
        Tracer("top --plain, libbpf", (PROGRAM, "top", *options, "--plain")),
        Tracer("export, libbpf", (PROGRAM, "export", "-p", "{pid}", "--listen", listen)),
        *stock(),
    )


def measure(server: Nginx, tracer: Tracer, cpus: Cpus, directory: Path) -> Held:
    """All rounds of one tracer."""
    held = Held()
    for _ in range(ROUNDS):
        forget(tracer, directory)
        for peaks in (held.first, held.later):
            with _watched(tracer, server.master_pid, directory) as (run, most):
                peaks.append(max(most))
                time.sleep(REST_S)
                held.rest.append(sum(map(own_bytes, family(run.pid))))
                wrk(server.port["rsa"], LOAD_S, *CLOSE_EACH, connections=CONNECTIONS, prefix=cpus.client_prefix)
                time.sleep(SETTLE_S)
                _look(held, run.pid)
    return held


@contextlib.contextmanager
def _watched(tracer: Tracer, pid: int, directory: Path) -> Iterator[tuple[Run, list[int]]]:
    """A tracer that is attached, and what its processes came to whenever it was looked until then."""
    seen: list[int] = []

    def look(tracer_pid: int) -> None:
        seen.append(sum(map(proportional_bytes, family(tracer_pid))))

    with attached(tracer, [pid], directory, meanwhile=look) as run:
        yield run, seen


def _look(held: Held, pid: int) -> None:
    """Notes what the tracer and the kernel hold now."""
    processes = family(pid)
    kept = kernel_bytes(processes)
    held.resident.append(sum(map(resident_bytes, processes)))
    held.proportional.append(sum(map(proportional_bytes, processes)))
    held.rings.append(kept["ring"])
    held.maps.append(kept["map"])
    held.programs.append(kept["prog"])
    held.perf.append(sum(map(perf_buffer_bytes, processes)))


def family(pid: int) -> list[int]:
    """The process and all that it and its children have started and that still run."""
    pids = [pid]
    for process in pids:
        for children in Path(f"/proc/{process}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # gone
                pids += map(int, children.read_text().split())
    return pids


def resident_bytes(pid: int) -> int:
    """Its pages in memory, those that it shares with others included; 0 for a process that is gone."""
    return 1024 * _field(f"/proc/{pid}/status", "VmRSS")


def own_bytes(pid: int) -> int:
    """The same without pages of BPF maps that it maps, which are the kernel's."""
    try:
        text = Path(f"/proc/{pid}/smaps").read_text()
    except OSError:
        return 0
    return resident_bytes(pid) - sum(1024 * int(size) for size in _MAPPED_MAP.findall(text))


def proportional_bytes(pid: int) -> int:
    """Its pages in memory, those that it shares with others divided by their number; 0 for a process that is gone."""
    return 1024 * _field(f"/proc/{pid}/smaps_rollup", "Pss")


def _field(path: str, name: str) -> int:
    try:
        text = Path(path).read_text()
    except OSError:
        return 0
    match = re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE)
    return int(match[1]) if match else 0


def kernel_bytes(pids: list[int]) -> dict[str, int]:
    """Bytes of the ring buffers ("ring"), other BPF maps ("map") and programs ("prog") that these processes have open, each
    counted once."""
    sizes: dict[tuple[str, str], int] = {}
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fdinfo").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                sizes |= _described(descriptor.read_text())
    return {kind: sum(size for (of, _), size in sizes.items() if of == kind) for kind in ("ring", "map", "prog")}


def _described(text: str) -> dict[tuple[str, str], int]:
    """The map or program of a descriptor, by its ID, with its bytes; nothing for another descriptor, a link's among them."""
    size = re.search(r"^memlock:\s+(\d+)$", text, re.MULTILINE)
    named = re.search(r"^(map|prog)_id:\s+(\d+)$", text, re.MULTILINE)
    if not size or not named:
        return {}
    ring = re.search(rf"^map_type:\s+{_RING_BUFFER}$", text, re.MULTILINE)
    return {("ring" if ring else named[1], named[2]): int(size[1])}


def perf_buffer_bytes(pid: int) -> int:
    """Bytes of the perf events' buffers that the process maps; 0 for a process that is gone."""
    try:
        text = Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return 0
    return sum(int(end, 16) - int(start, 16) for start, end in _PERF_BUFFER.findall(text))


def table(held: dict[str, Held]) -> str:
    """In MiB, the most of all runs."""
    columns = (
        *("first start", "later starts", "at rest", "tracing", "RSS"),
        *("kernel", "of it ring buffers", "other maps", "programs", "perf buffers"),
    )
    lines = [f"|  | {' | '.join(columns)} |", f"| --- |{' ---: |' * len(columns)}"]
    for name, peak in held.items():
        own = (peak.first, peak.later, peak.rest, peak.proportional, peak.resident)
        numbers = (*own, peak.kernel(), peak.rings, peak.maps, peak.programs, peak.perf)
        lines.append(f"| {name} | {' | '.join(_mib(values) for values in numbers)} |")
    return "\n".join(lines)


def _mib(values: list[int]) -> str:
    most = max(values) / 2**20
    return f"{most:.0f}" if most >= 10 else f"{most:.1f}" if most >= 0.1 else "<0.1" if most else "0"
