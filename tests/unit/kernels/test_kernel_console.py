# SPDX-License-Identifier: Apache-2.0
"""What of a kernel's log is a complaint."""

from __future__ import annotations

import pytest
from tests.kernels.console import complaints

BAD = (
    "BUG: unable to handle page fault for address: ffffd3a7c0a01008",
    "BUG: kernel NULL pointer dereference, address: 0000000000000008",
    "BUG: scheduling while atomic: nginx/211/0x00000002",
    "kernel BUG at mm/slub.c:440!",
    "Oops: 0002 [#1] PREEMPT SMP NOPTI",
    "Oops: double fault: 0000 [#1] PREEMPT SMP NOPTI",
    "WARNING: CPU: 1 PID: 212 at kernel/events/uprobes.c:1432 uprobe_unregister+0x5e/0x70",
    "WARNING: kernel/trace/bpf_trace.c:88 at bpf_probe_read+0x10/0x20, CPU#1: nginx/212",
    "WARNING: possible circular locking dependency detected",
    "WARNING: inconsistent lock state",
    "WARNING: suspicious RCU usage",
    "Kernel panic - not syncing: Fatal exception in interrupt",
    "Unable to handle kernel paging request at virtual address ffff80008123",
    "rcu: INFO: rcu_preempt self-detected stall on CPU",
    "watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [python3:201]",
    "INFO: task nginx:211 blocked for more than 120 seconds.",
    "note: nginx[211] exited with irqs disabled",
    "traps: nginx[211] trap int3 ip:7f0000001000 sp:7ffd00000000 error:0 in libssl.so.3[7f0000000000+5d000]",
    "nginx[211]: segfault at 8 ip 00007f0000001000 sp 00007ffd00000000 error 4 in libssl.so.3[7f0000000000+5d000]",
    "uprobe: nginx:211 failed to handle uretprobe, sending SIGILL.",
)
# Of a guest in which all is well.
GOOD = (
    "Linux version 6.12.107+deb13-cloud-amd64 (debian-kernel@lists.debian.org)",
    "Spectre V2 : Vulnerable",
    "x86/cpu: SGX disabled by BIOS.",
    "RETBleed: WARNING: Spectre v2 mitigation leaves CPU vulnerable to RETBleed attacks, data leaks possible!",
    "Kernel command line: oops=panic panic=-1 loglevel=5 checks=trace",
    "ima: No TPM chip found, activating TPM-bypass!",
    "guest: trace: passed in 3.6 s",
    "process '/checkout/build/venv/bin/python' started with executable stack",
)


@pytest.mark.parametrize("line", BAD)
def test_a_complaint(line: str) -> None:
    assert complaints(f"[    0.000000] Linux version 6.1\n[   52.798605] {line}\n[   53.000000] EXT4-fs: mounted\n") == [line]


@pytest.mark.parametrize("line", GOOD)
def test_no_complaint(line: str) -> None:
    assert complaints(f"[    1.000000] {line}") == []


def test_each_complaint_once_and_in_order() -> None:
    log = f"[ 1.0] {BAD[0]}\r\n[ 2.0] {BAD[4]}\r\n[ 1.0] {BAD[0]}\r\n"
    assert complaints(log) == [BAD[0], BAD[4]]
