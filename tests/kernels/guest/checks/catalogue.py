# SPDX-License-Identifier: Apache-2.0
"""The checks by name. A check returns facts, raises Refused where the kernel can't, and fails by any other error."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path
from typing import Any

from tests.kernels.guest import servers
from tests.kernels.guest.checks import (
    costs,
    engines,
    go_program,
    kernel_tls,
    leavings,
    odd,
    private_stacks,
    signed,
    targets,
)
from tests.kernels.guest.checks.loads import every_kind_of_site, every_program_loads
from tests.kernels.guest.checks.stress import stressed
from tests.kernels.guest.ways import Check, by
from tests.live.commands.trace import PROGRAM


def doctor() -> dict[str, Any]:
    """The doctor says that this machine can trace; the other checks show whether that is true."""
    done = subprocess.run([PROGRAM, "doctor", "--quiet"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"the doctor says: {done.stdout}{done.stderr}"
    return {}


def parameter(name: str, otherwise: str = "") -> str:
    """A parameter of the kernel's command line."""
    words = (word.partition("=") for word in Path("/proc/cmdline").read_text().split())
    return next((value for key, _, value in words if key == name), otherwise)


def stress() -> dict[str, Any]:
    """For as long as `stress_s` on the kernel's command line says."""
    return stressed(float(parameter("stress_s", "60")))


def panic() -> None:
    """Brings the guest's kernel down, to show that the host notices."""
    Path("/proc/sysrq-trigger").write_text("c")


CHECKS: dict[str, Check] = {
    "doctor": doctor,
    "programs load": every_program_loads,
    "private stacks": private_stacks.overwritten,
    "sites": every_kind_of_site,
    "costs of sites": costs.relative,
    "trace": servers.traced,
    "trace perf": partial(servers.traced, "--attach", "perf"),
    "trace multi": by("multi", partial(servers.traced, "--attach", "multi")),
    "trace session": by("session", partial(servers.traced, "--attach", "session")),
    "links process": partial(servers.traced, "--links", "process"),
    "links shared": partial(servers.traced, "--links", "shared"),
    "links process perf": partial(servers.traced, "--links", "process", "--attach", "perf"),
    "links shared perf": partial(servers.traced, "--links", "shared", "--attach", "perf"),
    "handshakes": servers.handshakes,
    "handshakes off-CPU": servers.handshakes_of_whom,
    "snoop": servers.snooped,
    "record": servers.recorded,
    "budget": servers.within_budget,
    "reload": targets.reloaded,
    "reload perf": partial(targets.reloaded, "--attach", "perf"),
    "threads": targets.threaded,
    "threads links process": partial(targets.threaded, "--links", "process"),
    "started later": targets.started_later,
    "late to write": targets.late_to_write,
    "Go": go_program.counted,
    "Go parts": go_program.parts_told,
    "kTLS": kernel_tls.counted,
    "engine bcc": engines.by_bcc,
    "engine bpftrace": engines.by_bpftrace,
    "signed return addresses": signed.counted,
    "three capabilities": targets.three_capabilities,
    "three capabilities perf": partial(targets.three_capabilities, "--attach", "perf"),
    "events of tracefs": targets.events_of_tracefs,
    "seccomp": targets.filtered,
    "nothing left": partial(leavings.after, leavings.interrupted),
    "nothing left perf": partial(leavings.after, leavings.interrupted, "--attach", "perf"),
    "nothing left killed": partial(leavings.after, leavings.killed),
    "nothing left killed perf": partial(leavings.after, leavings.killed, "--attach", "perf"),
    "no BTF": odd.no_btf,
    "no uprobes": odd.no_uprobes,
    "no tracefs": odd.no_tracefs,
    "cgroup v1": odd.cgroup_v1,
    "cgroup hybrid": odd.cgroup_hybrid,
    "unprivileged BPF disabled": odd.unprivileged_bpf_disabled,
    "lockdown integrity": odd.lockdown_integrity,
    "lockdown confidentiality": odd.lockdown_confidentiality,
    "stress": stress,
    "panic": panic,
}
