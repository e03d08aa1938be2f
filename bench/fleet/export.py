#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what `ssllatency export` takes of a host on which little happens: 200 processes of many services, each of which has
shaken hands before. Its two processes' CPU time at rest and scraped, what they and the kernel hold, how long a scrape takes.

CPU time is what the kernel's clocks of the two processes say, so that other work on the machine changes it little; how long a
scrape takes depends on that work.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from tests.live.clients.counted import TLS_1_2, TLS_1_3, Client
from tests.live.commands.export import Export
from tests.live.servers.nginx import Nginx, Settings

from bench.measuring import command
from bench.memory import kernel_bytes, own_bytes, perf_buffer_bytes, proportional_bytes, resident_bytes
from bench.page import machine
from ssllatency.engines.clock import process_clock_ns

SERVICES, WORKERS = 100, 1  # and a master each
CONNECTIONS = 4  # of each version to each service, before anything is measured
FORMATS = {
    "protobuf": "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited",
    "OpenMetrics": "application/openmetrics-text; version=1.0.0",
    "text": "text/plain",
}
_FRESH_S = 1.1  # after so long a scrape has the counts read again
_EVERY_15_S = "every 15 s"
_MOST_CPU, _MOST_BYTES = 0.005, 100 << 20  # the aims
_RESTED_S = 50.0  # after work: until the last stratum with a window has ended, and that in which it is seen that nobody works
_SCRAPES, _BUSY_SCRAPES = 5, 6
_APART_S = 0.7  # one more or less between busy scrapes, so that none comes when it is expected and its answer is made before
_REGULAR_S, _LEARNING, _REGULAR_SCRAPES = 8.0, 3, 3  # between regular scrapes; how many come before they are, and then


Scrape = tuple[float, float, float]


@dataclass
class Results:
    """What was measured. `cpu`: by how it was scraped, the part of a core that tracer and speaker took. `scrapes`: milliseconds
    by format, with nothing counted in between, and with something counted in every service (`busy`); each with the processor
    time that both processes took, and that for the network of it. `regular`: milliseconds of scrapes that were expected, busy
    ones. Bytes."""

    processes: int = 0
    series: int = 0
    cpu: dict[str, tuple[float, float]] = field(default_factory=dict)
    scrapes: dict[str, list[Scrape]] = field(default_factory=dict)
    busy: dict[str, list[Scrape]] = field(default_factory=dict)
    regular: list[float] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    memory: dict[str, int] = field(default_factory=dict)
    lost: str = ""


class Service(Nginx):
    """An nginx by another name: a service of its own to `export`."""

    name = "nginx"

    def _launch(self, command: list[str]) -> subprocess.Popen[bytes]:
        program = self.directory / self.name
        shutil.copy2(command[0], program)
        return super()._launch([str(program), *command[1:]])


def work_everywhere(running: Sequence[Service], connections: int) -> None:
    """The same of all, by a process of its own: this one would else pay for hits, and be watched as somebody who works whenever
    it scrapes."""
    clients = multiprocessing.get_context("fork").Process(target=_work_everywhere, args=(running, connections))
    clients.start()
    clients.join()
    if clients.exitcode:
        raise RuntimeError("the clients have failed")


def _work_everywhere(running: Sequence[Service], connections: int) -> None:
    for service in running:
        work(service, connections)


@contextlib.contextmanager
def services(certificates: Path) -> Iterator[list[Service]]:
    """All of them, idle."""
    with ExitStack() as stack:
        started = []
        for number in range(SERVICES):
            service = Service(certificates, Settings(workers=WORKERS, kinds=("ecdsa",), reuseport=True, tickets=True))
            service.name = f"web{number:02}"
            started.append(stack.enter_context(service))
        yield started


def work(service: Service, connections: int) -> None:
    """Some handshakes of both versions, resumed ones among them, and one that fails."""
    port = service.port["ecdsa"]
    for version in (TLS_1_2, TLS_1_3):
        client, session = Client(port, version), None
        for number in range(connections):
            session = client.connect(session=session if number % 2 else None).session
    with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
        plain.sendall(b"GET / HTTP/1.0\r\n\r\n")
        while plain.recv(4096):
            pass


def measure(rest_s: float) -> Results:
    """Everything."""
    results = Results()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ssllatency-bench-")))
        running = stack.enter_context(services(directory))
        pids = [pid for service in running for pid in (service.master_pid, *service.worker_pids())]
        export = stack.enter_context(Export(*(service.master_pid for service in running)))
        results.processes = len(pids)
        work_everywhere(running, CONNECTIONS)
        time.sleep(3)  # budgets are looked at, and the first reading is the dearest
        scrape(export, "protobuf")
        results.cpu["not scraped, just after work"] = _cpu(export, _RESTED_S, 0.0)
        for name, every_s in (("not scraped", 0.0), (_EVERY_15_S, 15.0), ("every 2 s", 2.0)):
            results.cpu[name] = _cpu(export, rest_s, every_s)
        results.memory = _memory(export)
        text = scrape(export, "text")[1].decode()
        results.series = int(float(_value(text, "ssllatency_series")))
        results.lost = ", ".join(
            line for line in text.splitlines() if line.startswith("ssllatency_losses") and line[-2:] != " 0"
        )
        for name in FORMATS:
            results.scrapes[name] = [_timed(export, name, results) for _ in range(_SCRAPES)]
        for name in FORMATS:
            scrape(export, name)  # the first of another format has all written, not what has changed alone
            for number in range(_BUSY_SCRAPES):
                work_everywhere(running, 1)
                time.sleep(_APART_S * (number % 2))
                results.busy.setdefault(name, []).append(_timed(export, name, results))
        results.regular = _regular(export, running)
    return results


def _regular(export: Export, running: Sequence[Service]) -> list[float]:
    """The milliseconds of scrapes at regular times, with something counted in every service between one and the next."""
    took_ms, next_s = [], time.monotonic()
    for _ in range(_LEARNING + _REGULAR_SCRAPES):
        time.sleep(max(0.0, next_s - time.monotonic()))
        next_s += _REGULAR_S
        took_ms.append(scrape(export, "protobuf")[0] * 1000)
        work_everywhere(running, 1)
    return took_ms[_LEARNING:]


def scrape(export: Export, format_name: str) -> tuple[float, bytes]:
    """Seconds, and what came."""
    request = urllib.request.Request(f"http://127.0.0.1:{export.port}/metrics", headers={"Accept": FORMATS[format_name]})
    began = time.monotonic()
    with urllib.request.urlopen(request, timeout=20) as answer:
        content: bytes = answer.read()
    return time.monotonic() - began, content


def _timed(export: Export, format_name: str, results: Results) -> Scrape:
    time.sleep(_FRESH_S)
    before_ns = _clocks_ns(export)
    took_s, content = scrape(export, format_name)
    tracer_ns, speaker_ns = (now - before for now, before in zip(_clocks_ns(export), before_ns, strict=True))
    results.sizes[format_name] = len(content)
    return took_s * 1000, (tracer_ns + speaker_ns) / 1e6, speaker_ns / 1e6


def _clocks_ns(export: Export) -> tuple[int, int]:
    """The processor time of each of the two processes."""
    return process_clock_ns(export.tracer) or 0, process_clock_ns(export.speaker) or 0


def _value(text: str, name: str) -> str:
    return next(line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(name + " "))


def _cpu(export: Export, rest_s: float, every_s: float) -> tuple[float, float]:
    """The part of a core that each of the two takes, over at least `rest_s` and a whole number of scrapes."""
    pids = export.tracer, export.speaker
    time.sleep(_FRESH_S)
    before, began = [process_clock_ns(pid) or 0 for pid in pids], time.monotonic()
    while time.monotonic() < began + rest_s:
        time.sleep(every_s or rest_s)
        if every_s:
            scrape(export, "protobuf")
    elapsed_ns = (time.monotonic() - began) * 1e9
    tracer, speaker = (((process_clock_ns(pid) or 0) - earlier) / elapsed_ns for pid, earlier in zip(pids, before, strict=True))
    return tracer, speaker


def _memory(export: Export) -> dict[str, int]:
    pids = [export.tracer, export.speaker]
    kept, mapped = kernel_bytes(pids), resident_bytes(export.tracer) - own_bytes(export.tracer)
    return {
        "the tracer (PSS)": proportional_bytes(export.tracer) - mapped,
        "the process for the network (PSS)": proportional_bytes(export.speaker),
        "the kernel's maps": kept["map"] + kept["ring"],
        "the kernel's programs and perf buffers": kept["prog"] + sum(map(perf_buffer_bytes, pids)),
    }


PAGE = """\
# What `export` takes

Written by `make bench-export`; run it again to measure your own machine. This page is the home of these figures: other pages
point here.

{machine}

{processes} processes of {services} services (each an nginx by a name of its own, with {workers} worker), all options at their
defaults. Every service has had handshakes of TLS 1.2 and 1.3, full and resumed, and a failed one; then nobody works.
*Just after work* are the {rested_s:.0f} s in which functions may still be watched in windows: setting and removing probes is
most of it.

## CPU time without load

| scraped | the tracer | the process for the network | together |
| --- | ---: | ---: | ---: |
{cpu}

Percent of one core, by the clocks that the kernel keeps of the two processes, each over {rest_s:.0f} s or more; what
else runs on the machine changes them little. The scrapes are of protobuf, as Prometheus' are, and not the first one. The aim,
less than 0.5 % where it is scraped every 15 s, is {cpu_aim}.

## Memory

After these scrapes:

| held by | MiB |
| --- | ---: |
{memory}

PSS divides a page that processes share among them; that of the tracer is without the kernel's maps that it maps. These
are made at the start, whatever the load: `--max-groups` and `--max-in-flight` ([export.md](../reference/export.md)) say
how large. The aim, less than 100 MiB for all of it, is {memory_aim}.

## A scrape

{series} series, from the request to the last byte, on loopback, milliseconds: the median and the longest of
{scrapes}. *At rest*: nothing was counted since the scrape before. *After work*: every service has shaken
hands and called since then. Each scrape has the kernel's maps read anew. Other work on the machine makes them longer; the
processor time is that of both processes, and in the last column that for the network alone, which writes and sends: the rest is
the tracer's, which reads, adds up and hands over.

| format | bytes | at rest | processor time | after work | processor time | of that to write |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
{formats}

The aim is 50 ms with 2,000 series.

A scraper that comes at regular times, as Prometheus does, is expected from its third scrape on: its answer is made up to 0.6 s
before. Every {regular_s:.0f} s, after work, protobuf: **{regular} ms**, the median and the longest of {regulars}. It takes as
much processor time as any other scrape.

## How

- Rows of handshakes are read in place, in memory that the programs share: of those that were counted in since, the parts that
  were. Of a part's 480 buckets, those are copied that lie in a line of memory in which something was counted, as the programs
  note with each. Two numbers tell whether anything was being counted meanwhile, so that nobody has to add up the parts. Other
  rows of the kernel's maps are copied, and read again where a byte of them has changed; those of "other", one for each outcome
  of each function, only once something counts there.
- A histogram's buckets are one number, of which each count is a word, from the programs' memory to the answer's encoding: read
  and added as one, they become numbers of their own in the few series that are answered one by one. Between the two processes
  they go as the bytes that the largest count needs, of each count: nearly always one.
- Of the rows of a process, one for each version and resumption, the parts that are shown without these are added up once.
- All that is made of a row is made again only where it is another: the counts of its process, the sums of its service, its
  points, and what goes between the two processes and is written of them. What is written is sent in pieces, as it is kept.
- Of a process that hasn't run since it was last looked at nothing is looked at. Whether one has ended the kernel tells by a
  handle on it.
- Where the series are those of the reading before, as they nearly always are, so is which of them have a place of their own,
  and their numbers in what goes between the two processes. The overflow is added up again only where a value in it is another.
- When no traced process has run for two strata of `--budget`, 12 seconds to a minute, no probe is set or removed any more.
"""


def page(results: Results, rest_s: float) -> str:
    """The page."""
    total = sum(results.memory.values())
    memory = [f"| {name} | {size / 2**20:.1f} |" for name, size in (*results.memory.items(), ("**all of it**", total))]
    cpu = [
        f"| {name} | {100 * tracer:.2f} % | {100 * speaker:.2f} % | {100 * (tracer + speaker):.2f} % |"
        for name, (tracer, speaker) in results.cpu.items()
    ]
    formats = [
        f"| {name} | {results.sizes[name]:,} | {_columns(results.scrapes[name], 2)} | {_columns(results.busy[name], 3)} |"
        for name in FORMATS
    ]
    return PAGE.format(
        machine=machine(),
        rested_s=_RESTED_S,
        processes=results.processes,
        services=SERVICES,
        workers=WORKERS,
        cpu="\n".join(cpu),
        rest_s=rest_s,
        memory="\n".join(memory),
        memory_aim=_met(total < _MOST_BYTES),
        cpu_aim=_met(sum(results.cpu[_EVERY_15_S]) < _MOST_CPU),
        series=f"{results.series:,}",
        scrapes=f"{_SCRAPES} (after work: {_BUSY_SCRAPES})",
        formats="\n".join(formats),
        regular_s=_REGULAR_S,
        regular=_times(results.regular),
        regulars=_REGULAR_SCRAPES,
    )


def _met(within: bool) -> str:
    return "met" if within else "missed"


def _columns(scrapes: Sequence[Scrape], number: int) -> str:
    return " | ".join(_times(values) for values in islice(zip(*scrapes, strict=True), number))


def _times(values_ms: Sequence[float]) -> str:
    return f"{statistics.median(values_ms):.0f} ({max(values_ms):.0f})"


def main() -> int:
    """Measure, and print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, metavar="S", help="how long each CPU time is measured (20)")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the page to write (none)")
    arguments = parser.parse_args()

    def make_page() -> str:
        results = measure(arguments.seconds)
        if results.lost:
            print(f"bench: {results.lost}", file=sys.stderr)
        return page(results, arguments.seconds)

    return command.run(make_page, arguments.output, "bench-export")


if __name__ == "__main__":
    sys.exit(main())
