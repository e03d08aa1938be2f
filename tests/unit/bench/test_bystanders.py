# SPDX-License-Identifier: Apache-2.0
"""Which processes hold probes, in folders laid out as /proc is."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.measuring.others import sentence, tracing


def process(proc: Path, pid: int, **links: str) -> None:
    """A process with descriptors: each a link whose type is given."""
    for name in ("fd", "fdinfo"):
        (proc / str(pid) / name).mkdir(parents=True)
    (proc / str(pid) / "fd" / "0").symlink_to("/dev/null")
    for number, (name, kind) in enumerate(links.items(), start=3):
        (proc / str(pid) / "fd" / str(number)).symlink_to(f"anon_inode:{name}")
        (proc / str(pid) / "fdinfo" / str(number)).write_text(f"pos:\t0\nlink_type:\t{kind}\nlink_id:\t7\n")


@pytest.mark.parametrize("kind", ["perf", "uprobe_multi", "kprobe_multi"])
def test_processes_with_probes_are_found(tmp_path: Path, kind: str) -> None:
    process(tmp_path, 30, bpf_link=kind)
    process(tmp_path, 4, bpf_link=kind)
    process(tmp_path, 5, bpf_link="cgroup")
    process(tmp_path, 6, bpf_prog=kind)
    process(tmp_path, 7)
    (tmp_path / "self").mkdir()
    (tmp_path / "8").mkdir()  # ended
    assert tracing(tmp_path) == [4, 30]


def test_disturbed_rounds_are_told() -> None:
    assert sentence([0, 0, 0]) == ""
    assert sentence([0, 2, 1, 0]).startswith("Other processes held probes in 2 of 4 rounds")
