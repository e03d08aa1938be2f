# SPDX-License-Identifier: Apache-2.0
"""Run within a copy of the package that has the made-up stack: all that is found out about the library named on the command
line, and what commands show of records that the kernel side would make of its calls and handshakes, as one JSON document."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from dataclasses import dataclass, replace
from typing import Any

from ssllatency import abi
from ssllatency.elf.image import Image
from ssllatency.engines.attach.sites import library_record
from ssllatency.engines.base import TracedImage
from ssllatency.engines.read.handshake_rows import Rows
from ssllatency.engines.read.tallies import TallyRows, in_order
from ssllatency.engines.read.who import Texts
from ssllatency.engines.sessions.handshake_sites import always_watched, error_sites, phase_sites, watched
from ssllatency.export.formats import text as metrics
from ssllatency.export.metrics.exposition import Exposition, Own
from ssllatency.export.metrics.ledger import Known
from ssllatency.export.metrics.points import labels
from ssllatency.model.arithmetic.handshake_sums import add_tallies
from ssllatency.model.handshakes import Handshakes, Label
from ssllatency.model.histogram import ExponentialHistogram, LinearHistogram
from ssllatency.model.recording import Recording
from ssllatency.model.snapshot import Outcome, Series, Snapshot, Target, TracedLibrary
from ssllatency.probes.cache.parts import FACTS, HANDSHAKE, NAMES, PLAN
from ssllatency.probes.plan import FilePlan
from ssllatency.probes.settings import PlanSettings
from ssllatency.reports.html.document import render as page
from ssllatency.reports.text import trace
from ssllatency.reports.text.handshakes import report
from ssllatency.stacks.names import Names
from ssllatency.stacks.registry import stack_named
from ssllatency.targets import listing, process_of, survey
from ssllatency.tracing.file_facts import KnownFiles

PID, WALL_NS, SIGNING_NS = 7, 3_000_000, 2_000_000


def filled(times: Any, ns: int) -> None:
    """As the kernel counts one duration."""
    of_one = ExponentialHistogram.from_values([ns])
    bucket = of_one.offset - of_one.grid.first_bucket
    times.lines, times.exponential[bucket] = 1 << bucket // abi.Geometry.LINE, 1
    times.total_ns = ns


def row(ending: abi.Ending, **parts: int) -> tuple[bytes, bytes]:
    """A handshake that took so many nanoseconds."""
    key, content = abi.Labels(ending=ending, known=1 << abi.Label.PROCESS), abi.HandshakeRow()
    key.values[abi.Label.PROCESS] = PID
    for name, ns in parts.items():
        filled(content.parts[abi.Part[name]], ns)
    return bytes(key), bytes(content)


def measured(image_plan: FilePlan, names: Names) -> Snapshot:
    """A handshake that succeeded and one that failed, and a read."""
    rows = Rows({}, lambda _: "server", Texts(tuple), (Label.PROCESS,))
    groups = rows.groups(
        [
            row(abi.Ending.SUCCESS, WALL=WALL_NS, CALLS=WALL_NS, PRIVATE_KEY=SIGNING_NS, REST=WALL_NS - SIGNING_NS),
            row(abi.Ending.FAILURE, WALL=WALL_NS, CALLS=WALL_NS, REST=WALL_NS),
        ],
        lambda _: names,
        1,
    )
    error = 1 << abi.Error.LIBRARY | 7
    cause = abi.CauseKey(error=error, alert=40, sent=1, ending=abi.Ending.FAILURE, state=abi.State.UNKNOWN, tgid=PID)
    cipher = abi.MixKey(tgid=PID, label=abi.Label.CIPHER, value=0x03001301)
    causes, mix = [(bytes(cause), bytes(abi.Tally(1, WALL_NS)))], [(bytes(cipher), (1).to_bytes(8, "little"))]
    by_process = TallyRows().read(causes, [], mix, [], lambda _: names)
    everything = in_order(add_tallies(by_process.values()))
    handshakes = Handshakes(
        groups, everything.causes, everything.keys, everything.mix, by=(Label.PROCESS,), by_process=by_process
    )
    read = LinearHistogram.from_values(0, 1000, 200, [WALL_NS])
    times = ExponentialHistogram.from_values([WALL_NS])
    series = Series("madeup_read", Outcome.SUCCESS, PID, WALL_NS, WALL_NS, WALL_NS, times, read)
    library = TracedLibrary(image_plan.path, image_plan.build_id, image_plan.version)
    targets = (Target(PID, "server", (library,)),)
    return Snapshot("host", "6.1", "libbpf", "2030-01-31T12:00:00+00:00", 1.0, targets, (series,), handshakes=handshakes)


@dataclass
class Processes:
    """The one process."""

    def started(self, _pid: int) -> int:
        return 1

    def known(self, _pid: int, name: str) -> Known:
        return Known(1, labels({"service": name}))


def library_of(image: TracedImage) -> abi.Library:
    """Its record as the kernel side has it."""
    return library_record(image.plan.offsets, stack_named(image.plan.stack), image.labels)


def sites(image: TracedImage) -> dict[str, Any]:
    """What the kernel side is given for its handshakes."""
    stack = stack_named(image.plan.stack)
    handshake = image.plan.handshake
    begins, ends = phase_sites(always_watched(handshake.calls), stack.offers)
    return {
        "watched": [operation.operation for operation in watched([image], [image])[0].plan.operations],
        "parts": [abi.Part(cookie & 0x3F).name for _, cookie in begins],
        "ends": len(ends),
        "errors": len(error_sites(handshake.errors)),
        "version_at": list(library_of(watched([image], [image])[0]).paths[abi.PlaceOf.VERSION].offsets)[:1],
    }


def surveyed(library: str) -> list[str]:
    """The rows of `targets` for this process, which maps the library."""
    ctypes.CDLL(library)
    process = process_of(os.getpid())
    return [" ".join(cells[4:]) for cells in listing.rows(survey([process], KnownFiles().describe))]


def outputs(path: str) -> dict[str, Any]:
    """All of it."""
    image = Image.open(path)
    said: dict[str, Any] = {}
    for part in (FACTS, PLAN, HANDSHAKE, NAMES):
        values = json.loads(json.dumps(part.to_values(part.make(image, PlanSettings()))))
        part.read(values, 1 << 20)
        said[part.name] = values
    plan, names = PLAN.make(image, PlanSettings()), NAMES.make(image, PlanSettings())
    traced = TracedImage(replace(plan, handshake=HANDSHAKE.make(image, PlanSettings())), path, (PID,))
    said["kernel"] = library_of(traced).rwstate
    said["sites"] = sites(traced)
    said["targets"] = surveyed(path)
    snapshot = measured(plan, names)
    said["handshakes"] = report.render(snapshot)
    calls = replace(snapshot, handshakes=None)
    said["trace"] = trace.render(calls)
    said["page of handshakes"], said["page of calls"] = (page(Recording.of([each]), None) for each in (snapshot, calls))
    exposition = Exposition(Processes(), 2000, 300.0)
    said["metrics"] = b"".join(metrics.pieces(exposition.read(snapshot, set(), Own(0, 0.1)), open_metrics=True)).decode()
    return said


if __name__ == "__main__":
    print(json.dumps(outputs(sys.argv[1])))
