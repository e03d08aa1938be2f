# SPDX-License-Identifier: Apache-2.0
"""Processes that hold probes already: what they trace pays for them, so that nothing measured here is without a tracer."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

_LINK = "anon_inode:bpf_link"
_PROBES = re.compile(r"^link_type:\s+(?:perf|perf_event|uprobe_multi|kprobe_multi)$", re.MULTILINE)


def tracing(proc: Path = Path("/proc")) -> list[int]:
    """The PIDs of all processes that hold links of probes, ascending."""
    pids = (int(process.name) for process in proc.iterdir() if process.name.isdecimal())
    return sorted(pid for pid in pids if any(_PROBES.search(text) for text in _links(proc / str(pid))))


def _links(process: Path) -> Iterator[str]:
    """What the kernel says of each BPF link that the process has open."""
    with suppress(OSError):  # ended meanwhile
        for descriptor in list((process / "fd").iterdir()):
            with suppress(OSError):  # closed meanwhile
                if os.readlink(descriptor) == _LINK:  # noqa: PTH115 - what it names isn't a path
                    yield (process / "fdinfo" / descriptor.name).read_text()


def sentence(disturbed: Iterable[int]) -> str:
    """What is to be said of the rounds of one work, given how many processes traced before each."""
    counts = list(disturbed)
    rounds = sum(count > 0 for count in counts)
    return f"Other processes held probes in {rounds} of {len(counts)} rounds, which disturbs these figures." if rounds else ""
