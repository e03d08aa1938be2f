# SPDX-License-Identifier: Apache-2.0
"""Where a process spends its CPU time, by the symbols that perf's samples lie in."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.measuring.tracers import BenchError

FREQUENCY = 9_999  # samples a second, so that they don't fall in step with the kernel's ticks
USER = "the process's own code"
OUR_PROGRAMS, CLOCK, MAPS, PROBES, ENTRY_AND_EXIT = (
    "the BPF programs' own instructions",
    "reading the clock",
    "looking up and updating maps",
    "finding and running what is to be done at a site",
    "traps into the kernel and back",
)
REST = "all else in the kernel"
_KINDS = (  # the first whose pattern is found in a kernel symbol
    (OUR_PROGRAMS, r"^bpf_prog_"),
    (CLOCK, r"tsc|ktime|kvm_clock|sched_clock|pvclock"),
    (MAPS, r"htab|lookup_(nulls_)?elem|jhash|array_map|map_lookup|map_update|copy_map_value|rqspin"),
    (PROBES, r"uprobe|handler_chain|emulate|mtree|mas_|swbp|bpf_|rcu|srcu|migrate|_trace|find_active|vma"),
    (
        ENTRY_AND_EXIT,
        r"irqentry|int3|asm_exc|error_entry|error_return|sync_regs|fixup|exit_to_user|native_iret|notify_die",
    ),
)


@contextmanager
def recorded(cpu: int, file: Path) -> Iterator[None]:
    """Samples what runs on a CPU for the length of the block. BenchError where perf isn't here or can't."""
    command = ["perf", "record", "-q", "-e", "cpu-clock", "-F", str(FREQUENCY), "-C", str(cpu), "-o", str(file)]
    try:
        perf = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    except FileNotFoundError:
        raise BenchError("perf isn't here: apt-get install linux-perf.") from None
    try:
        yield
    finally:
        perf.terminate()
        error = perf.communicate()[1]
    if not file.exists() or not file.stat().st_size:
        raise BenchError(f"perf record can't sample: {error.strip()[-200:]}")


def by_symbol(file: Path, pid: int) -> Counter[str]:
    """How many of the recorded samples of a process lie in each symbol of the kernel; those of its own code are one."""
    command = ["perf", "script", "-i", str(file), "--pid", str(pid), "-F", "ip,sym"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return Counter(symbol for line in lines if line.strip() for symbol in _symbols(line))


def _symbols(line: str) -> Iterable[str]:
    address, _, symbol = line.strip().partition(" ")
    if int(address, 16) < 1 << 63:
        return [USER]
    return [re.sub(r"^bpf_prog_[0-9a-f]{16}_", "bpf_prog_", symbol.strip())]


def kind_of(symbol: str) -> str:
    """The part of a hit's way that a symbol belongs to."""
    if symbol == USER:
        return USER
    return next((kind for kind, pattern in _KINDS if re.search(pattern, symbol)), REST)


def by_kind(values: Mapping[str, float]) -> dict[str, float]:
    """The sums by kind, 0 where there was nothing."""
    sums = dict.fromkeys((OUR_PROGRAMS, CLOCK, MAPS, PROBES, ENTRY_AND_EXIT, REST, USER), 0.0)
    for symbol, value in values.items():
        sums[kind_of(symbol)] += value
    return sums
