# SPDX-License-Identifier: Apache-2.0
"""What tells whether uprobe programs can be preempted."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from ssllatency.host.preemption import gives_private_stacks, is_preemptible, loses_tracepoints, preemption_model

DYNAMIC = "#1 SMP PREEMPT_DYNAMIC Debian 7.3.4-1"


def test_tracepoints_are_preemptible_since_linux_7() -> None:
    assert [loses_tracepoints(version) for version in ((6, 19, 9), (7, 0, 0), (7, 3, 4))] == [False, True, True]


def write(root: Path, name: str, content: bytes) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_bytes(content)


@pytest.mark.parametrize(
    ("machine", "version", "gives"),
    [
        ("x86_64", (6, 12, 107), False),
        ("x86_64", (6, 13, 0), True),
        ("x86_64", (7, 3, 4), True),
        ("aarch64", (6, 16, 0), False),
        ("aarch64", (6, 17, 0), True),
        ("riscv64", (7, 3, 4), False),
    ],
)
def test_private_stacks(machine: str, version: tuple[int, ...], gives: bool) -> None:
    assert gives_private_stacks(machine, version) == gives


def test_a_kernel_that_was_built_without_preemption(tmp_path: Path) -> None:
    assert not is_preemptible(tmp_path, "6.12.0", "#1 SMP Debian 6.12.0-1")


def test_what_nothing_tells_counts_as_preemptible(tmp_path: Path) -> None:
    assert preemption_model(tmp_path, "7.3.4", DYNAMIC) == ""
    assert is_preemptible(tmp_path, "7.3.4", DYNAMIC)


def test_the_running_scheduler_counts_before_the_command_line_and_that_before_the_build(tmp_path: Path) -> None:
    write(tmp_path, "boot/config-6.18.9", b"CONFIG_PREEMPT_BUILD=y\n# CONFIG_PREEMPT_NONE is not set\nCONFIG_PREEMPT_LAZY=y\n")
    assert preemption_model(tmp_path, "6.18.9", DYNAMIC) == "lazy"
    write(
        tmp_path, "proc/config.gz", gzip.compress(b"CONFIG_PREEMPT_BUILD=y\nCONFIG_PREEMPT_NONE=y\nCONFIG_PREEMPT_DYNAMIC=y\n")
    )
    assert preemption_model(tmp_path, "6.18.9", DYNAMIC) == "none"
    write(tmp_path, "proc/cmdline", b"root=/dev/vda preempt=full quiet\n")
    assert preemption_model(tmp_path, "6.18.9", DYNAMIC) == "full"
    write(tmp_path, "sys/kernel/debug/sched/preempt", b"none (voluntary) full lazy\n")
    assert preemption_model(tmp_path, "6.18.9", DYNAMIC) == "voluntary"
    assert not is_preemptible(tmp_path, "6.18.9", DYNAMIC)
    assert is_preemptible(tmp_path, "6.18.9", "#1 SMP PREEMPT_RT")


def test_a_model_that_the_kernel_no_longer_has_is_not_taken_from_the_command_line(tmp_path: Path) -> None:
    write(tmp_path, "proc/cmdline", b"root=/dev/vda preempt=none quiet\n")
    assert not is_preemptible(tmp_path, "6.19.2", DYNAMIC)
    assert preemption_model(tmp_path, "7.0.0-22-generic", DYNAMIC) == ""
    assert is_preemptible(tmp_path, "7.0.0-22-generic", DYNAMIC)
    write(tmp_path, "proc/cmdline", b"root=/dev/vda preempt=lazy\n")
    assert preemption_model(tmp_path, "7.0.0-22-generic", DYNAMIC) == "lazy"


def test_a_damaged_configuration_tells_nothing(tmp_path: Path) -> None:
    write(tmp_path, "proc/config.gz", b"\x1f\x8b\x08 no more")
    assert is_preemptible(tmp_path, "7.3.4", DYNAMIC)
