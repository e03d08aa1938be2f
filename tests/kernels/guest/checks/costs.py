# SPDX-License-Identifier: Apache-2.0
"""What a hit of each kind of site costs by this kernel, one relative to another: an emulated processor tells no more."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from ssllatency.probes.plan import Cost
from tests.bpf import instructions, stepping
from tests.bpf.instructions import Snippet

_BATCHES, _ROUNDS = 15, 20
_TURNS = 5  # calls are timed without and with a probe in turn so often: the host may be busy


def relative() -> dict[str, Any]:
    """An emulated site is cheaper than one that is single-stepped, as the planner reckons, so many times."""
    emulated, stepped = (_hit_us(_snippet(cost)) for cost in (Cost.EMULATED, Cost.SINGLE_STEPPED))
    assert 0 < emulated < stepped, f"an emulated site costs {emulated:.1f} us, a stepped one {stepped:.1f} us"
    return {"stepped to emulated": round(stepped / emulated, 1)}


def _snippet(cost: Cost) -> Snippet:
    """The first instruction at this cost."""
    return next(each for each in instructions.OWN if stepping.expected(stepping.instruction(each)) is cost)


def _hit_us(snippet: Snippet) -> float:
    """How much longer a call with a probe takes, each at the best of some batches, which is the least disturbed."""
    plain_us, probed_us = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "code")
        path.write_bytes(snippet.code.ljust(stepping.SIZE, b"\0"))
        with stepping.running(path) as process:
            for _ in range(_TURNS):
                plain_us += [_call_us(process) for _ in range(_BATCHES)]
                with stepping.probed(path, snippet.site, process.pid) as event:
                    probed_us += [_call_us(process) for _ in range(_BATCHES)]
                    assert stepping.hits(event) == _BATCHES * _ROUNDS * len(stepping.ARGUMENTS), (
                        "the probe isn't hit at each call"
                    )
    return min(probed_us) - min(plain_us)


def _call_us(process: stepping.Process) -> float:
    """The processor time of one call, by a batch of them; what the process waits for doesn't count."""
    began_ns = _processor_ns(process.pid)
    for _ in range(_ROUNDS):
        process.results()
    return (_processor_ns(process.pid) - began_ns) / 1e3 / (_ROUNDS * len(stepping.ARGUMENTS))


def _processor_ns(pid: int) -> int:
    """The processor time that the process has had so far."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
