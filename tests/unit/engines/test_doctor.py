# SPDX-License-Identifier: Apache-2.0
"""The doctor's findings on machines described by a made-up root, and on this one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ssllatency.engines.doctor import Host, blockers, can_trace, findings, lacking
from ssllatency.errors import SsllatencyError

ALL_CAPABILITIES = "000001ffffffffff"
NONE = "0000000000000000"
# CAP_CHECKPOINT_RESTORE, CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH.
FIVE_CAPABILITIES = f"{1 << 40 | 1 << 39 | 1 << 38 | 1 << 19 | 1 << 2:016x}"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A machine on which all is well."""
    object_file = tmp_path / "ssllatency.bpf.o"
    object_file.write_bytes(b"\x7fELF")
    for name in ("sys/kernel/btf/vmlinux", "sys/kernel/security/lockdown", "proc/sys/kernel/perf_event_paranoid"):
        write(tmp_path, name, "")
    (tmp_path / "sys/bus/event_source/devices/uprobe").mkdir(parents=True)
    write(tmp_path, "sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
    write(tmp_path, "proc/sys/kernel/perf_event_paranoid", "2\n")
    write(tmp_path, "proc/self/uid_map", "         0          0 4294967295\n")
    (tmp_path / "lib/modules/6.1.0-30-amd64/build").mkdir(parents=True)
    capabilities(tmp_path, ALL_CAPABILITIES)
    return Host(
        object_file,
        tmp_path,
        "x86_64",
        "6.1.0-30-amd64",
        "#1 SMP Debian 6.1.0-30",
        euid=0,
        libbpf=lambda: (1, 1),
        which=lambda name: "/usr/bin/bpftrace" if name == "bpftrace" else None,
        bcc=lambda: "0.26.0",
        program="tools/ssllatency",
    )


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def capabilities(root: Path, effective: str) -> None:
    write(root, "proc/self/status", f"Name:\tpython3\nCapPrm:\t{ALL_CAPABILITIES}\nCapEff:\t{effective}\nCapBnd:\t{NONE}\n")


def no_library() -> tuple[int, int]:
    raise OSError("libbpf.so.1: cannot open shared object file: No such file or directory")


def old_library() -> tuple[int, int]:
    return 0, 8


def no_bcc() -> str:
    raise SsllatencyError("bcc can't be used (No module named 'bcc')")


def test_all_is_well(host: Host) -> None:
    found = findings(host)
    assert [finding.name for finding in found if not finding.ok] == []
    assert {finding.remedy for finding in found} == {""}
    assert can_trace(host) is None


def test_a_kernel_that_refuses_the_programs_cannot_trace(host: Host) -> None:
    """Also where all else is well: on Linux 6.1 only the verifier told."""
    host = replace(host, trial=lambda: "the kernel didn't load the BPF programs (program at_exit: R2 unbounded).")
    assert [finding.name for finding in blockers(host)] == ["BPF programs"]
    assert can_trace(host) == (
        "This machine can't trace: the kernel didn't load the BPF programs (program at_exit: R2 unbounded) "
        "(to fix it: sudo tools/ssllatency trace --engine bpftrace)."
    )


def test_a_kernel_that_takes_the_programs_can_trace(host: Host) -> None:
    host = replace(host, trial=lambda: "")
    assert can_trace(host) is None
    assert any(finding.name == "BPF programs" and finding.ok for finding in findings(host))


@pytest.mark.parametrize("bits", [NONE, f"{1 << 39:016x}"])
def test_no_program_is_tried_where_something_else_is_missing(host: Host, bits: str) -> None:
    capabilities(host.root, bits)
    host = replace(host, trial=lambda: pytest.fail("tried"))
    assert [finding.name for finding in blockers(host)] == ["privileges"]


def test_bpftrace_is_refused_on_a_kernel_that_its_programs_can_bring_down(host: Host) -> None:
    newer = replace(host, release="6.18.9", build="#1 SMP PREEMPT_DYNAMIC")
    assert "can be brought down" in lacking(newer, "bpftrace")
    assert lacking(newer) == ""
    write(host.root, "proc/cmdline", "quiet preempt=none\n")
    assert lacking(newer, "bpftrace") == ""
    assert "can be brought down" in lacking(replace(newer, release="7.0.0"), "bpftrace")  # which has no such mode any more
    refused = replace(newer, trial=lambda: "the kernel didn't load the BPF programs.")
    assert "bpftrace" in {finding.name: finding.remedy for finding in findings(refused)}["BPF programs"]
    write(host.root, "proc/cmdline", "quiet\n")
    assert "bpftrace" not in {finding.name: finding.remedy for finding in findings(refused)}["BPF programs"]


Change = Callable[[Host], Host]


def without(name: str) -> Change:
    def change(host: Host) -> Host:
        path = host.root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        return host

    return change


def holding(effective: str, euid: int) -> Change:
    def change(host: Host) -> Host:
        capabilities(host.root, effective)
        return replace(host, euid=euid)

    return change


def saying(name: str, text: str) -> Change:
    def change(host: Host) -> Host:
        write(host.root, name, text)
        return host

    return change


def being(**fields: object) -> Change:
    return lambda host: replace(host, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "name", "detail", "remedy"),
    [
        (being(machine="riscv64"), "architecture", "only x86-64 and aarch64", "ssh to a host"),
        (being(machine="aarch64", release="4.19.0"), "kernel", "4.19.0", "apt-get install linux-image-arm64"),
        (being(release="5.14.21"), "kernel", "5.15 or later", "apt-get install linux-image-amd64"),
        (being(release="4.19.0-27-amd64"), "kernel", "4.19.0-27-amd64", "apt-get install linux-image-amd64"),
        (being(release="unheard of"), "kernel", "unheard of", "apt-get install linux-image-amd64"),
        (holding(NONE, 1000), "privileges", "user 1000 lacks CAP_BPF", "sudo tools/ssllatency"),
        (holding(NONE, 0), "privileges", "root lacks CAP_BPF", "docker run --privileged"),
        (holding(f"{1 << 39:016x}", 1000), "privileges", "lacks", "sudo"),
        (saying("proc/self/uid_map", "0 1000 1\n"), "privileges", "user namespace", "docker run --privileged"),
        (without("proc/self/status"), "privileges", "lacks", "docker"),
        (without("sys/kernel/btf"), "BTF", "CONFIG_DEBUG_INFO_BTF", "linux-image-amd64"),
        (without("sys"), "BTF", "/sys isn't mounted", "sudo mount -t sysfs sysfs /sys"),
        (without("sys/bus/event_source/devices/uprobe"), "uprobes", "CONFIG_UPROBE_EVENTS", "linux-image-amd64"),
        (without("sys"), "uprobes", "/sys isn't mounted", "sudo mount -t sysfs sysfs /sys"),
        (
            saying("sys/kernel/security/lockdown", "none integrity [confidentiality]\n"),
            "lockdown",
            "confidentiality",
            "update-grub",
        ),
        (being(libbpf=no_library), "libbpf", "isn't installed", "sudo apt-get install libbpf1"),
        (being(libbpf=old_library), "libbpf", "libbpf is 0.8, and 1.0 or later", "sudo apt-get install libbpf1"),
        (without("ssllatency.bpf.o"), "BPF object", "isn't built", "apt-get install clang"),
    ],
)
def test_what_makes_tracing_impossible(host: Host, change: Change, name: str, detail: str, remedy: str) -> None:
    host = change(host)
    [finding] = [finding for finding in blockers(host) if finding.name == name]
    assert detail in finding.detail
    assert remedy in finding.remedy
    sentence = can_trace(host)
    assert sentence is not None
    assert finding.detail in sentence
    assert finding.remedy in sentence


def test_a_checkout_with_a_compiler_needs_only_make(host: Host) -> None:
    host = without("ssllatency.bpf.o")(replace(host, which=lambda name: f"/usr/bin/{name}"))
    [finding] = blockers(host)
    assert finding.remedy == "make all"


@pytest.mark.parametrize("release", ["5.15.0", "5.15.0-100-generic", "6.1.0-30-amd64", "6.18.44", "10.0"])
def test_kernels_that_serve(host: Host, release: str) -> None:
    assert blockers(replace(host, release=release)) == []


def with_multi_uprobes(host: Host) -> Host:
    (host.root / "lib/modules/6.6.0/build").mkdir(parents=True)
    return replace(host, release="6.6.0")


def test_five_capabilities_do_without_root(host: Host) -> None:
    host = holding(FIVE_CAPABILITIES, 1000)(with_multi_uprobes(host))
    assert [finding.name for finding in findings(host) if not finding.ok] == []


@pytest.mark.parametrize(
    ("held", "lacking"),
    [(1 << 39, "lacks CAP_PERFMON, or"), (1 << 38, "lacks CAP_BPF, or"), (0, "lacks CAP_BPF and CAP_PERFMON, or")],
)
def test_the_capability_that_is_missing_is_named(host: Host, held: int, lacking: str) -> None:
    sentence = can_trace(holding(f"{held:016x}", 1000)(host))
    assert sentence is not None
    assert lacking in sentence


@pytest.mark.parametrize(
    ("bit", "name", "capability"),
    [
        (19, "other users' processes", "CAP_SYS_PTRACE"),
        (40, "replaced files", "CAP_CHECKPOINT_RESTORE"),
        (2, "replaced files", "CAP_DAC_READ_SEARCH"),
    ],
)
def test_three_capabilities_can_be_done_without(host: Host, bit: int, name: str, capability: str) -> None:
    host = holding(f"{int(FIVE_CAPABILITIES, 16) & ~(1 << bit):016x}", 1000)(with_multi_uprobes(host))
    [finding] = [finding for finding in findings(host) if not finding.ok]
    assert finding.name == name
    assert capability in finding.detail
    assert finding.remedy == "sudo tools/ssllatency"
    assert can_trace(host) is None


@pytest.mark.parametrize(
    ("release", "held", "found"),
    [("6.1.0-30-amd64", FIVE_CAPABILITIES, True), ("6.6.0", FIVE_CAPABILITIES, False), ("6.1.0", ALL_CAPABILITIES, False)],
)
def test_perf_events_may_ask_for_more(host: Host, release: str, held: str, found: bool) -> None:
    host = holding(held, 1000)(replace(host, release=release))
    assert ("perf events" in [finding.name for finding in findings(host)]) == found
    assert can_trace(host) is None


def test_a_tracefs_that_may_be_written_to_serves_as_well(host: Host) -> None:
    host = holding(FIVE_CAPABILITIES, 1000)(replace(host, release="6.1.0"))
    (without,) = (finding for finding in findings(host) if finding.name == "perf events")
    assert not without.ok
    assert "CAP_DAC_OVERRIDE" in without.detail
    write(host.root, "sys/kernel/tracing/uprobe_events", "")
    (found,) = (finding for finding in findings(host) if finding.name == "perf events")
    assert found.ok


def test_paranoia_matters_only_without_sys_admin(host: Host) -> None:
    host = saying("proc/sys/kernel/perf_event_paranoid", "3\n")(host)
    assert "perf_event_paranoid" not in [finding.name for finding in findings(host)]
    host = holding(FIVE_CAPABILITIES, 1000)(with_multi_uprobes(host))
    [finding] = [finding for finding in findings(host) if not finding.ok]
    assert finding.remedy == "sudo sysctl kernel.perf_event_paranoid=2"
    assert can_trace(host) is None


def test_a_kernel_without_lockdown_has_no_such_finding(host: Host) -> None:
    assert "lockdown" not in [finding.name for finding in findings(without("sys/kernel/security")(host))]


def test_several_reasons_make_one_sentence(host: Host) -> None:
    sentence = can_trace(being(release="5.4.0", libbpf=no_library)(host))
    assert sentence is not None
    assert sentence.startswith("This machine can't trace: the kernel is Linux 5.4.0")
    assert sentence.count(";") == 1
    assert sentence.endswith("libbpf1).")


@pytest.mark.parametrize(
    ("engine", "change", "name", "remedy"),
    [
        ("libbpf", being(libbpf=no_library), "libbpf", "libbpf1"),
        ("libbpf", without("sys/kernel/btf"), "BTF", "linux-image"),
        ("bcc", being(bcc=no_bcc), "bcc", "sudo apt-get install python3-bpfcc"),
        ("bcc", without("lib"), "kernel headers", "sudo apt-get install linux-headers-6.1.0-30-amd64"),
        ("bcc", being(release="6.18.44-own"), "kernel headers", "/lib/modules/6.18.44-own/$each; done"),
        ("bcc", being(machine="aarch64", release="6.18.44-own"), "kernel headers", "/lib/modules/*-arm64/$each"),
        ("bcc", being(machine="aarch64", release="6.12.9-cloud-arm64"), "kernel headers", "linux-headers-6.12.9-cloud-arm64"),
        ("bpftrace", being(which=lambda _: None), "bpftrace", "sudo apt-get install bpftrace"),
    ],
)
def test_what_one_engine_needs_hinders_no_other(host: Host, engine: str, change: Change, name: str, remedy: str) -> None:
    host = change(host)
    [finding] = [finding for finding in findings(host) if not finding.ok]
    assert (finding.name, finding.engine) == (name, engine)
    assert remedy in finding.remedy
    for other in ("libbpf", "bcc", "bpftrace"):
        assert bool(lacking(host, other)) == (other == engine)


def test_what_other_engines_need_is_not_looked_at(host: Host) -> None:
    asked: list[str] = []
    host = replace(host, bcc=lambda: asked.append("bcc") or "0.26", which=lambda name: asked.append(name))
    assert lacking(host, "libbpf") == ""
    assert asked == []
    findings(host)
    assert asked == ["bcc", "bpftrace"]


def test_what_all_engines_need_hinders_all(host: Host) -> None:
    assert all(lacking(being(release="5.4.0")(host), engine) for engine in ("libbpf", "bcc", "bpftrace"))


def test_headers_that_the_kernel_carries_serve(host: Host) -> None:
    host = without("lib")(host)
    write(host.root, "sys/kernel/kheaders.tar.xz", "")
    assert lacking(host, "bcc") == ""


def test_this_machine(tmp_path: Path) -> None:
    found = {finding.name: finding for finding in findings(Host(tmp_path / "absent.bpf.o"))}
    assert os.uname().release in found["kernel"].detail
    assert found["architecture"].ok == (os.uname().machine in ("x86_64", "aarch64"))
    assert found["BTF"].ok == Path("/sys/kernel/btf/vmlinux").exists()
    assert not found["BPF object"].ok
    assert all(finding.remedy for finding in found.values() if not finding.ok)
    assert not any(finding.remedy for finding in found.values() if finding.ok)
