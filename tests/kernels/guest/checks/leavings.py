# SPDX-License-Identifier: Apache-2.0
"""What a command leaves behind in the kernel and in the processes that it traced: nothing, however it ends."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ssllatency.engines.bpf import kernel
from tests.kernels.guest.servers import connect, server
from tests.live.commands.trace import Trace
from tests.waiting import wait_for

# enum bpf_cmd: the command that gives the number after another's.
_NEXT = {"programs": 11, "maps": 12, "links": 31}
_TIMEOUT_S = 120.0


def held_by_the_kernel() -> dict[str, int]:
    """How many programs, maps and links of BPF there are, by whomever."""
    return {kind: _number_of(command) for kind, command in _NEXT.items()}


def _number_of(command: int) -> int:
    call, number, found = ctypes.CDLL(None).syscall, 0, 0
    while True:
        request = ctypes.create_string_buffer(struct.pack("<II", number, 0), 128)
        if call(kernel.BPF_SYSCALL[os.uname().machine], command, request, 128) < 0:
            return found
        number, found = struct.unpack_from("<I", request.raw, 4)[0], found + 1


def changed_bytes(pid: int) -> int:
    """How many bytes of the process's code of libssl and libcrypto aren't those of the files: its breakpoints."""
    changed = 0
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        words = line.split()
        if len(words) == 6 and "x" in words[1] and re.search(r"/lib(ssl|crypto)\.", words[5]):
            start, end = (int(text, 16) for text in words[0].split("-"))
            with Path(words[5]).open("rb") as file, Path(f"/proc/{pid}/mem").open("rb") as memory:
                file.seek(int(words[2], 16))
                memory.seek(start)
                ours, theirs = file.read(end - start), memory.read(end - start)
            changed += sum(one != other for one, other in zip(ours, theirs, strict=False)) if ours != theirs[: len(ours)] else 0
    return changed


def _nothing_left(before: dict[str, int], worker: int) -> bool:
    return held_by_the_kernel() == before and changed_bytes(worker) == 0


def _held_when_quiet(worker: int) -> dict[str, int]:
    """What the kernel holds once the perf events of earlier checks are gone, which outlive their commands by some seconds."""
    seen: list[dict[str, int]] = []

    def quiet() -> bool:
        seen.append(held_by_the_kernel())
        time.sleep(1)
        return len(seen) > 3 and all(one == seen[-1] for one in seen[-4:]) and changed_bytes(worker) == 0

    wait_for(quiet, _TIMEOUT_S)
    return seen[-1]


def after(end: Callable[..., None], *options: str) -> dict[str, Any]:
    """A trace with these options is there while it runs; once it has ended so, nothing of it is, and the server serves."""
    nginx = server()
    (worker,) = nginx.worker_pids()
    before = _held_when_quiet(worker)
    trace = Trace(nginx.master_pid, options=options)
    trace.__enter__()
    breakpoints, held = changed_bytes(worker), held_by_the_kernel()
    assert breakpoints > 0
    assert held["programs"] > before["programs"]
    began = time.monotonic()
    end(trace)
    ended_s = round(time.monotonic() - began, 1)
    wait_for(lambda: _nothing_left(before, worker), _TIMEOUT_S)
    connect(nginx, 1)
    return {"breakpoints": breakpoints, "ended_s": ended_s, "gone_s": round(time.monotonic() - began, 1)}


def interrupted(trace: Trace) -> None:
    """Ctrl-C."""
    trace.__exit__(None, None, None)


def killed(trace: Trace) -> None:
    """kill -9, after which only the kernel cleans up."""
    trace._process.send_signal(signal.SIGKILL)
    trace._process.wait()
