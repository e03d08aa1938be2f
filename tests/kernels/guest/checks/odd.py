# SPDX-License-Identifier: Apache-2.0
"""Machines that lack what others have: ssllatency traces all the same, or says in one sentence what is missing.

What a mount hides is hidden from the command alone, in a mount namespace of its own.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.kernels.guest.checks.targets import as_nobody
from tests.kernels.guest.servers import assert_document, connect, server
from tests.kernels.guest.ways import Refused, refusal
from tests.live.commands.trace import Trace

_LOCKDOWN = Path("/sys/kernel/security/lockdown")
_EMPTY = Path("/run/empty")
_V1, _V2 = Path("/run/cgroup-v1"), Path("/sys/fs/cgroup")


def _hidden_by(*commands: str) -> tuple[str, ...]:
    """The prefix that runs a command where these have changed what is mounted."""
    _EMPTY.mkdir(exist_ok=True)
    return ("unshare", "--mount", "sh", "-c", f'{" && ".join(commands)} && exec "$@"', "sh")


def _traced(*options: str, prefix: tuple[str, ...] = (), pids: tuple[int, ...] | None = None) -> dict[str, Any]:
    nginx = server()
    with Trace(*((nginx.master_pid,) if pids is None else pids), options=options, prefix=prefix) as trace:
        expected = connect(nginx)
    return {**assert_document(trace.document, expected), "engine": trace.document["engine"]}


def _refused(prefix: tuple[str, ...], words: str, *options: str) -> None:
    raise Refused(refusal(lambda: _traced(*options, prefix=prefix), words))


def lockdown_integrity() -> dict[str, Any]:
    """Integrity forbids programs that write to other processes; ours only read."""
    assert "[integrity]" in _LOCKDOWN.read_text(), f"lockdown is {_LOCKDOWN.read_text()}"
    return _traced()


def lockdown_confidentiality() -> None:
    """Confidentiality forbids reading the kernel's memory. There is no way back: to be the guest's last check."""
    _LOCKDOWN.write_text("confidentiality")
    _refused((), "kernel lockdown is confidentiality, which refuses BPF programs that trace")


def no_btf() -> None:
    """As a kernel built without CONFIG_DEBUG_INFO_BTF looks: bcc is taken, and the engine that needs BTF is refused."""
    prefix = _hidden_by(f"mount --bind {_EMPTY} /sys/kernel/btf")
    engine = _traced(prefix=prefix)["engine"]
    assert engine == "bcc", f"it traced by {engine}"
    _refused(prefix, "the kernel was built without BTF", "--engine", "libbpf")


def no_uprobes() -> None:
    """As a kernel built without CONFIG_UPROBE_EVENTS looks."""
    _refused(_hidden_by(f"mount --bind {_EMPTY} /sys/bus/event_source/devices"), "the kernel was built without uprobes")


def no_tracefs() -> dict[str, Any]:
    """Neither tracefs nor debugfs is mounted: nothing that traces needs them."""
    return _traced("--attach", "perf", prefix=_hidden_by("umount -l /sys/kernel/tracing", "umount -l /sys/kernel/debug"))


def unprivileged_bpf_disabled() -> dict[str, Any]:
    """Root isn't concerned; who has no capability is told which are missing."""
    Path("/proc/sys/kernel/unprivileged_bpf_disabled").write_text("1")
    facts = _traced()
    sentence = refusal(lambda: _traced(prefix=as_nobody("-all")), "lacks CAP_BPF and CAP_PERFMON")
    return {**facts, "without capabilities": sentence}


def cgroup_v1() -> dict[str, Any]:
    """Only hierarchies of version 1, as old distributions mount them."""
    with _cgroup(_V1 / "web"):
        return _traced("--cgroup", str(_V1 / "web"), prefix=_hidden_by(f"umount -l {_V2}"), pids=())


def cgroup_hybrid() -> dict[str, Any]:
    """Both versions are mounted; the group is of version 2."""
    with _cgroup(_V2 / "web"):
        return _traced("--cgroup", "/web", pids=())


@contextmanager
def _cgroup(folder: Path) -> Iterator[None]:
    """The server in a group of its own, beside a hierarchy of version 1."""
    if not (_V1 / "cgroup.procs").exists():
        _V1.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "cgroup", "-o", "none,name=ours", "ours", _V1], check=True)
    folder.mkdir()
    nginx = server()
    pids = (nginx.master_pid, *nginx.worker_pids())
    _move(pids, folder)
    yield
    _move(pids, folder.parent)
    folder.rmdir()


def _move(pids: tuple[int, ...], group: Path) -> None:
    for pid in pids:
        (group / "cgroup.procs").write_text(str(pid))
