# SPDX-License-Identifier: Apache-2.0
"""Things that this machine lacks for tracing, each with the command that fixes it (package names are Debian's).

The checks ask /proc, /sys and the loader, and change nothing. All that they ask is in `Host`, so that tests can describe
any machine.
"""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import field, replace
from pathlib import Path

from ssllatency.data_class import dataclass
from ssllatency.engines.bpf import tracefs
from ssllatency.engines.bpf.objects import is_outdated, object_path
from ssllatency.errors import SsllatencyError
from ssllatency.host import preemption
from ssllatency.host.kernel import release
from ssllatency.host.kernel_text import kernel_text

OLDEST_KERNEL = (5, 15)
OLDEST_LIBBPF = (1, 0)
_MULTI_UPROBES = (6, 6)
_CAPABILITIES = {
    "CAP_DAC_READ_SEARCH": 2,
    "CAP_SYS_PTRACE": 19,
    "CAP_SYS_ADMIN": 21,
    "CAP_PERFMON": 38,
    "CAP_BPF": 39,
    "CAP_CHECKPOINT_RESTORE": 40,
}
# The supported machines, and what Debian calls them in the names of its packages.
_DEBIAN_NAMES = {"x86_64": "amd64", "aarch64": "arm64"}
_MOUNT_SYSFS = "sudo mount -t sysfs sysfs /sys"
_PRIVILEGED = "docker run --privileged --pid=host ..."
_BUILD_PACKAGES = "sudo apt-get install clang llvm libbpf-dev bpftool make"
_NOT_BLOCKING = frozenset({"other users' processes", "replaced files", "perf events", "perf_event_paranoid"})
DEFAULT_ENGINE = "libbpf"


@dataclass(frozen=True)
class Finding:
    """One check: `detail` says what was found, `remedy` is the command that fixes it ("" where ok), `engine` the only engine
    that needs this ("": all do)."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    engine: str = ""


def libbpf_version() -> tuple[int, int]:
    """Major and minor version of the libbpf.so.1 that the loader finds; OSError where it finds none."""
    library = ctypes.CDLL("libbpf.so.1")
    return library.libbpf_major_version(), library.libbpf_minor_version()


def bcc_version() -> str:
    """The version of the bcc that this Python imports; SsllatencyError where there is none."""
    from ssllatency.engines.bcc_engine import import_bcc

    return str(getattr(import_bcc(), "__version__", "of unknown version"))


def program_path(name: str) -> str | None:
    """The path of a program on the PATH, None where it doesn't."""
    from shutil import which  # takes a while to bring in, and most engines need no program

    return which(name)


@dataclass(frozen=True)
class Host:
    """The host that the checks look at. `root` is where /proc and /sys begin; `program` is how the user runs ssllatency, and
    `command` all that was typed, "" where that isn't known.
    `trial` loads the BPF programs and says why the kernel refuses them, "" where it doesn't (trial.py); None leaves that
    out."""

    bpf_object: Path
    root: Path = Path("/")
    machine: str = field(default_factory=lambda: os.uname().machine)
    release: str = field(default_factory=lambda: os.uname().release)
    build: str = field(default_factory=lambda: os.uname().version)
    euid: int = field(default_factory=os.geteuid)
    libbpf: Callable[[], tuple[int, int]] = libbpf_version
    which: Callable[[str], str | None] = program_path
    bcc: Callable[[], str] = bcc_version
    program: str = "ssllatency"
    command: str = ""
    trial: Callable[[], str] | None = None


def this_host() -> Host:
    """The machine that this runs on."""
    program = typed_program()
    return Host(object_path(), program=program, command=shlex.join([program, *sys.argv[1:]]))


def typed_program() -> str:
    """Return the program as one types it: by its name alone where it was found on the PATH."""
    program = os.environ.get("SSLLATENCY_PROGRAM", "ssllatency")
    folder, name = os.path.split(program)
    return name if folder in os.environ.get("PATH", "").split(os.pathsep) else program


def findings(host: Host, engine: str = "") -> list[Finding]:
    """Every check that applies to `host`, or only those of one engine, in the order in which to fix them.

    The needs of other engines aren't checked then: bcc's library alone takes 60 MB of memory.
    """
    checks = {
        _architecture: "",
        _kernel: "",
        _privileges: "",
        _other_users: "",
        _replaced_files: "",
        _perf_events: "",
        _btf: "libbpf",
        _uprobes: "",
        _lockdown: "",
        _perf_event_paranoid: "",
        _libbpf: "libbpf",
        _bpf_object: "libbpf",
        _bpf_programs: "libbpf",
        _bcc: "bcc",
        _kernel_headers: "bcc",
        _bpftrace: "bpftrace",
        _private_stacks: "bpftrace",
    }
    wanted = {check: alone for check, alone in checks.items() if not engine or alone in ("", engine)}
    return [replace(finding, engine=alone) for check, alone in wanted.items() if (finding := check(host))]


def blockers(host: Host, engine: str = DEFAULT_ENGINE) -> list[Finding]:
    """Those that make tracing by `engine` impossible."""
    return [finding for finding in findings(host, engine) if not finding.ok and finding.name not in _NOT_BLOCKING]


def lacking(host: Host, engine: str = DEFAULT_ENGINE) -> str:
    """The things that `host` lacks for tracing by `engine`, and what fixes it, as phrases; "" where it lacks nothing."""
    missing = blockers(host, engine)
    return "; ".join(f"{finding.detail} (to fix it: {finding.remedy})" for finding in missing)


def can_trace(host: Host, engine: str = DEFAULT_ENGINE) -> str | None:
    """Return why `host` can't trace and what fixes it, as one sentence; None where it can."""
    reasons = lacking(host, engine)
    return f"This machine can't trace: {reasons}." if reasons else None


def _architecture(host: Host) -> Finding:
    ok = host.machine in _DEBIAN_NAMES
    detail = f"the processor is {host.machine}" + ("" if ok else ", and only x86-64 and aarch64 are supported")
    return Finding("architecture", ok, detail, "" if ok else "ssh to a host with such a processor, and run ssllatency there")


def _debian_name(host: Host) -> str:
    return _DEBIAN_NAMES.get(host.machine, "amd64")


def _new_kernel(host: Host) -> str:
    return f"sudo apt-get install linux-image-{_debian_name(host)} && sudo reboot"


def _kernel(host: Host) -> Finding:
    match = re.match(r"(\d+)\.(\d+)", host.release)
    ok = bool(match and (int(match[1]), int(match[2])) >= OLDEST_KERNEL)
    detail = f"the kernel is Linux {host.release}" + ("" if ok else f", and {_dotted(OLDEST_KERNEL)} or later is needed")
    return Finding("kernel", ok, detail, "" if ok else _new_kernel(host))


def _privileges(host: Host) -> Finding:
    held = _capabilities(host)
    who = "root" if host.euid == 0 else f"user {host.euid}"
    if _in_user_namespace(host):
        return Finding("privileges", False, f"{who} of a user namespace has no rights on the kernel", _PRIVILEGED)
    if "CAP_SYS_ADMIN" in held or {"CAP_BPF", "CAP_PERFMON"} <= held:
        return Finding("privileges", True, f"{who} with {_listed(held)}")
    remedy = _PRIVILEGED if host.euid == 0 else f"sudo {host.command or host.program}"
    lacking = " and ".join(sorted({"CAP_BPF", "CAP_PERFMON"} - held))
    return Finding("privileges", False, f"{who} lacks {lacking}, or CAP_SYS_ADMIN", remedy)


def _other_users(host: Host) -> Finding:
    if "CAP_SYS_PTRACE" in _capabilities(host):
        return Finding("other users' processes", True, "processes of every user can be examined")
    remedy = "docker run --cap-add SYS_PTRACE --pid=host ..." if host.euid == 0 else f"sudo {host.command or host.program}"
    return Finding("other users' processes", False, "without CAP_SYS_PTRACE only one's own processes can be examined", remedy)


def _replaced_files(host: Host) -> Finding:
    """The kernel's own handle on a mapping is for those who may restore processes, in a folder only for its owner."""
    held = _capabilities(host)
    missing = sorted({"CAP_DAC_READ_SEARCH", *(() if "CAP_SYS_ADMIN" in held else ("CAP_CHECKPOINT_RESTORE",))} - held)
    if not missing:
        return Finding("replaced files", True, "files can be opened that are no longer on disk as they are mapped")
    words = " ".join(f"--cap-add {name.removeprefix('CAP_')}" for name in missing)
    remedy = f"docker run {words} --pid=host ..." if host.euid == 0 else f"sudo {host.command or host.program}"
    detail = f"without {' and '.join(missing)} a library that was replaced or deleted under a process can't be traced"
    return Finding("replaced files", False, detail, remedy)


def _perf_events(host: Host) -> Finding | None:
    """Before Linux 6.6 uprobes are perf events. Those asked for CAP_SYS_ADMIN until 5.8, and again since 6.16 and in stable
    kernels of July 2025 ("perf: Revert to requiring CAP_SYS_ADMIN for uprobes"): the version doesn't tell. Events of tracefs do
    as well, for who may write there."""
    match = re.match(r"(\d+)\.(\d+)", host.release)
    if not match or (int(match[1]), int(match[2])) >= _MULTI_UPROBES or "CAP_SYS_ADMIN" in _capabilities(host):
        return None
    places = (host.root / place.relative_to("/") / "uprobe_events" for place in tracefs.PLACES)
    if any(os.access(place, os.W_OK, effective_ids=True) for place in places):
        return Finding("perf events", True, "uprobes can be set by events of tracefs")
    detail = (
        f"on Linux {host.release} uprobes are perf events, for which an updated kernel asks for CAP_SYS_ADMIN, or for a "
        "tracefs that may be written to (CAP_DAC_OVERRIDE)"
    )
    return Finding("perf events", False, detail, f"sudo {host.command or host.program}")


def _btf(host: Host) -> Finding:
    if (host.root / "sys/kernel/btf/vmlinux").exists():
        return Finding("BTF", True, "the kernel describes its types in /sys/kernel/btf/vmlinux")
    return _absent_from_sys(host, "BTF", "kernel", "the kernel was built without BTF (CONFIG_DEBUG_INFO_BTF)")


def _uprobes(host: Host) -> Finding:
    if (host.root / "sys/bus/event_source/devices/uprobe").exists():
        return Finding("uprobes", True, "the kernel has uprobes")
    return _absent_from_sys(host, "uprobes", "bus", "the kernel was built without uprobes (CONFIG_UPROBE_EVENTS)")


def _absent_from_sys(host: Host, name: str, folder: str, detail: str) -> Finding:
    if not (host.root / "sys" / folder).exists():
        return Finding(name, False, "/sys isn't mounted", _MOUNT_SYSFS)
    return Finding(name, False, detail, _new_kernel(host))


def _lockdown(host: Host) -> Finding | None:
    """Confidentiality takes bpf_probe_read_kernel away, by which the BPF program reads a process' name."""
    text = _read(host.root / "sys/kernel/security/lockdown")
    mode = re.search(r"\[(\w+)\]", text)
    if not mode:
        return None
    if mode[1] != "confidentiality":
        return Finding("lockdown", True, f"kernel lockdown is {mode[1]}")
    remedy = "sudo sed -i s/lockdown=confidentiality/lockdown=integrity/ /etc/default/grub && sudo update-grub && sudo reboot"
    return Finding("lockdown", False, "kernel lockdown is confidentiality, which refuses BPF programs that trace", remedy)


def _perf_event_paranoid(host: Host) -> Finding | None:
    """Matters only to CAP_PERFMON without CAP_SYS_ADMIN: Debian's additional level 3 may ask for the latter."""
    level = _read(host.root / "proc/sys/kernel/perf_event_paranoid").strip()
    if "CAP_SYS_ADMIN" in _capabilities(host) or not level.isdecimal() or int(level) < 3:
        return None
    detail = f"kernel.perf_event_paranoid is {level}, at which the kernel may ask for CAP_SYS_ADMIN"
    return Finding("perf_event_paranoid", False, detail, "sudo sysctl kernel.perf_event_paranoid=2")


def _libbpf(host: Host) -> Finding:
    remedy = "sudo apt-get install libbpf1"
    try:
        version = host.libbpf()
    except (OSError, AttributeError):
        return Finding("libbpf", False, "libbpf.so.1 isn't installed", remedy)
    ok = version >= OLDEST_LIBBPF
    detail = f"libbpf is {_dotted(version)}" + ("" if ok else f", and {_dotted(OLDEST_LIBBPF)} or later is needed")
    return Finding("libbpf", ok, detail, "" if ok else remedy)


def _bpf_object(host: Host) -> Finding:
    """The compiler is wanted only where the object has yet to be built."""
    if host.bpf_object.is_file():
        if is_outdated(host.bpf_object):
            return Finding("BPF object", False, f"{host.bpf_object} is older than its sources", "make bpf")
        return Finding("BPF object", True, f"the BPF program is in {host.bpf_object}")
    remedy = "make all" if host.which("clang") else f"{_BUILD_PACKAGES} && make all"
    return Finding("BPF object", False, f"the BPF program isn't built: there is no {host.bpf_object}", remedy)


def _bpf_programs(host: Host) -> Finding | None:
    """Tried only where the checks before it found no obstacle: those name the cause more precisely."""
    before = (_architecture, _kernel, _privileges, _btf, _uprobes, _lockdown, _libbpf, _bpf_object)
    if host.trial is None or any(finding and not finding.ok for finding in (check(host) for check in before)):
        return None
    if reason := host.trial():
        return Finding("BPF programs", False, reason.rstrip("."), _without_our_programs(host))
    return Finding("BPF programs", True, "the kernel loads the BPF programs")


def _without_our_programs(host: Host) -> str:
    stacks = _private_stacks(host)
    if stacks and not stacks.ok:
        return _new_kernel(host)
    return f"sudo {host.program} trace --engine bpftrace" if host.which("bpftrace") else "sudo apt-get install bpftrace"


def _bcc(host: Host) -> Finding:
    try:
        return Finding("bcc", True, f"bcc is {host.bcc()}")
    except SsllatencyError:
        return Finding("bcc", False, "this Python has no bcc", "sudo apt-get install python3-bpfcc")


def _kernel_headers(host: Host) -> Finding:
    """bcc compiles with those of /lib/modules, or with what the kernel itself carries."""
    build = Path("/lib/modules", host.release, "build")
    for path in (build, Path("/sys/kernel/kheaders.tar.xz")):
        if (host.root / path.relative_to("/")).exists():
            return Finding("kernel headers", True, f"the kernel headers are in {path}")
    return Finding("kernel headers", False, f"there are no kernel headers in {build}", _headers_remedy(host))


def _headers_remedy(host: Host) -> str:
    """The kernel's own headers where it is Debian's; else those of Debian's kernel under this kernel's name, which serve."""
    release, machine = host.release, _debian_name(host)
    if re.search(rf"-(cloud-)?{machine}$", release):
        return f"sudo apt-get install linux-headers-{release}"
    newest = f'$(readlink -f "$(ls -d /lib/modules/*-{machine}/$each | tail -n 1)")'
    links = f'for each in build source; do sudo ln -sfn "{newest}" /lib/modules/{release}/$each; done'
    return f"sudo apt-get install linux-headers-{machine} && sudo mkdir -p /lib/modules/{release} && {links}"


def _bpftrace(host: Host) -> Finding:
    path = host.which("bpftrace")
    if path:
        return Finding("bpftrace", True, f"bpftrace is {path}")
    return Finding("bpftrace", False, "bpftrace isn't installed", "sudo apt-get install bpftrace")


def _private_stacks(host: Host) -> Finding | None:
    """Only bpftrace's programs run on private stacks. It must not be used then: it would crash the machine."""
    if not preemption.gives_private_stacks(host.machine, release(host.release)):
        return None
    if not preemption.is_preemptible(host.root, host.release, host.build):
        return Finding("private stacks", True, "the kernel gives BPF programs private stacks, but preempts none of them")
    detail = (
        f"Linux {host.release} is preemptible and can be brought down by any uprobe program with a large stack: "
        "ssllatency's own are built so that it isn't, bpftrace's aren't"
    )
    return Finding("private stacks", False, detail, f"sudo {host.program} trace --engine libbpf")


def _capabilities(host: Host) -> frozenset[str]:
    match = re.search(r"^CapEff:\s*([0-9a-fA-F]+)$", _read(host.root / "proc/self/status"), re.MULTILINE)
    bits = int(match[1], 16) if match else 0
    return frozenset(name for name, bit in _CAPABILITIES.items() if bits >> bit & 1)


def _in_user_namespace(host: Host) -> bool:
    """The first namespace maps every user to itself; any other is one in which capabilities count for little."""
    fields = _read(host.root / "proc/self/uid_map").split()
    return bool(fields) and fields != ["0", "0", "4294967295"]


def _read(path: Path) -> str:
    try:
        return kernel_text(path)
    except OSError:
        return ""


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
