# SPDX-License-Identifier: Apache-2.0
"""What is tried, by name: how what is called with bytes is made, and the bytes to begin with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.fuzz import (
    certificate_invariants,
    code_invariants,
    code_seeds,
    edits,
    go_invariants,
    host_invariants,
    invariants,
    network_invariants,
    seeds,
    text_invariants,
    text_seeds,
)

Check = Callable[[bytes], None]


@dataclass(frozen=True)
class Target:
    """`make` is given a folder of its own. `a_minute`: how many inputs take about two seconds, the target's
    share of a minute. Larger input than
    `most_bytes` isn't tried. `programs` make its seeds."""

    make: Callable[[Path], tuple[Check, list[bytes]]]
    a_minute: int
    most_bytes: int = 1 << 14
    programs: tuple[str, ...] = ()


def _libraries(check: Check, folder: Path) -> tuple[Check, list[bytes]]:
    return check, seeds.libraries(folder)


def _debug(folder: Path) -> tuple[Check, list[bytes]]:
    library, debug = seeds.stripped_library(folder)
    return invariants.check_debug_file(library, folder / "root"), [debug]


def _code(machine: str, folder: Path) -> tuple[Check, list[bytes]]:
    template, bodies = code_seeds.MACHINES[machine](folder)
    return code_invariants.check_code(template), bodies


def _kept_values(folder: Path) -> tuple[Check, list[bytes]]:
    return edits.of_documents(invariants.check_kept, seeds.kept(folder)), edits.beginnings()


def _recorded_values(_folder: Path) -> tuple[Check, list[bytes]]:
    def check(data: bytes) -> None:
        text_invariants.check_recording(data)
        text_invariants.check_report(data)

    whole = [text for text in text_seeds.recordings() if text.endswith(b"}\n")]
    return edits.of_documents(check, whole), edits.beginnings()


def _values_of(check: Check, texts: Callable[[], list[bytes]], _folder: Path) -> tuple[Check, list[bytes]]:
    return edits.of_documents(check, texts()), edits.beginnings()


def _below(make: Callable[[Path], Check], texts: Callable[[], list[bytes]], folder: Path) -> tuple[Check, list[bytes]]:
    return make(folder), texts()


def _runtime_values(folder: Path) -> tuple[Check, list[bytes]]:
    return edits.of_documents(host_invariants.check_runtime(folder), host_invariants.runtime_files()), edits.beginnings()


def _of(check: Check, texts: Callable[[], list[bytes]], _folder: Path) -> tuple[Check, list[bytes]]:
    return check, texts()


def _unnamed_openssl(folder: Path) -> tuple[Check, list[bytes]]:
    return invariants.check_unnamed_openssl, seeds.unnamed_openssl(folder)


_BINARIES = {
    "image": Target(partial(_libraries, invariants.check_image), 2_000, programs=seeds.TOOLS),
    "plan": Target(partial(_libraries, invariants.check_plan), 700, programs=seeds.TOOLS),
    "handshakes": Target(partial(_libraries, invariants.check_handshake_plan), 600, programs=seeds.TOOLS),
    "names": Target(partial(_libraries, invariants.check_names), 700, programs=seeds.TOOLS),
    "unnamed": Target(lambda folder: (invariants.check_unnamed, seeds.unnamed(folder)), 100, programs=seeds.TOOLS),
    "unnamed-openssl": Target(_unnamed_openssl, 100, programs=seeds.TOOLS),
    "rust": Target(lambda folder: (invariants.check_rust, seeds.rust(folder)), 500, programs=seeds.TOOLS),
    "debug": Target(_debug, 1_000, 1 << 12, seeds.TOOLS),
    "code": Target(partial(_code, "x86-64"), 500, code_invariants.ROOM, seeds.TOOLS),
    "code-aarch64": Target(partial(_code, "aarch64"), 500, code_invariants.ROOM, ("clang",)),
    "certificate": Target(
        partial(_of, certificate_invariants.check_certificate, certificate_invariants.certificates), 8_000, 1 << 12
    ),
    "go": Target(partial(_of, go_invariants.check_program, go_invariants.programs), 500),
}
_TEXTS = {
    "kept": Target(lambda folder: (invariants.check_kept, seeds.kept(folder)), 30_000, programs=seeds.TOOLS),
    "recording": Target(partial(_of, text_invariants.check_recording, text_seeds.recordings), 8_000),
    "report": Target(partial(_of, text_invariants.check_report, text_seeds.recordings), 6_000),
    "tools": Target(partial(_of, text_invariants.check_tool_output, text_seeds.tool_outputs), 800, 1 << 12),
    "matrix": Target(partial(_of, text_invariants.check_matrix, text_seeds.matrices), 40_000, 1 << 12),
    "condition": Target(partial(_of, text_invariants.check_condition, text_seeds.conditions), 5_000, 1 << 10),
    "options": Target(partial(_of, host_invariants.check_options, host_invariants.values), 15_000, 1 << 6),
    "table": Target(partial(_of, text_invariants.check_table, text_seeds.tables), 100_000, 1 << 12),
}
_HOST = {
    "cgroup": Target(partial(_of, host_invariants.check_cgroup, host_invariants.cgroups), 20_000, 1 << 10),
    "process": Target(partial(_below, host_invariants.check_process, host_invariants.processes), 5_000, 1 << 10),
    "runtime": Target(partial(_below, host_invariants.check_runtime, host_invariants.runtime_files), 1_200, 1 << 10),
    "answer": Target(partial(_of, network_invariants.check_answer, network_invariants.answers), 20_000, 1 << 10),
    "samples": Target(partial(_of, host_invariants.check_samples, host_invariants.samples), 40_000, 1 << 10),
    "header": Target(partial(_of, host_invariants.check_header, host_invariants.headers), 30_000, 1 << 8),
    "request": Target(partial(_of, network_invariants.check_requests, network_invariants.requests), 5_000, 1 << 10),
    "frame": Target(partial(_of, host_invariants.check_frame, host_invariants.frames), 40_000, 1 << 10),
    "flight": Target(partial(_of, host_invariants.check_flight_recording, host_invariants.flight_recordings), 1_000, 1 << 12),
}
# Bytes that choose what is changed in a good document.
_VALUES = {
    "kept-values": Target(_kept_values, 5_000, 256, seeds.TOOLS),
    "recording-values": Target(_recorded_values, 1_200, 256),
    "samples-values": Target(partial(_values_of, host_invariants.check_samples, host_invariants.samples), 20_000, 256),
    "frame-values": Target(partial(_values_of, host_invariants.check_frame, host_invariants.frames), 20_000, 256),
    "runtime-values": Target(_runtime_values, 1_200, 256),
    "history-values": Target(partial(_values_of, network_invariants.check_history, network_invariants.histories), 1_200, 256),
}
_ROOMS = {"binaries": _BINARIES, "texts": _TEXTS, "host": _HOST, "values": _VALUES}
TARGETS = {name: target for room in _ROOMS.values() for name, target in room.items()}
ROOM_OF = {name: room for room, targets in _ROOMS.items() for name in targets}
