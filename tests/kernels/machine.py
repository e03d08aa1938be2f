# SPDX-License-Identifier: Apache-2.0
"""The emulated machine: QEMU's command line for a guest of either architecture.

TCG with one thread: QEMU 7.2's with several has faults of its own under this load, which look like the kernel's. The guest has
no cmpxchg16b either, which the kernel's allocator uses where it is there: with it there were double faults now and then.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
FOLDER = TOP / "build" / "kernels"


@dataclass(frozen=True)
class Architecture:
    """How QEMU emulates a machine of an architecture, by Debian's name for that."""

    program: str
    options: tuple[str, ...]
    console: str
    package: str


ARCHITECTURES = {
    "amd64": Architecture("qemu-system-x86_64", ("-machine", "pc", "-cpu", "max,-cx16"), "ttyS0", "qemu-system-x86"),
    "arm64": Architecture("qemu-system-aarch64", ("-machine", "virt", "-cpu", "neoverse-n1"), "ttyAMA0", "qemu-system-arm"),
}
SIGNING = "signs return addresses"
# Other processors. An emulator takes long for the architecture's own function that signs addresses; `impdef` is a cheaper one.
PROCESSORS = {"": (), SIGNING: ("-cpu", "max,pauth-impdef=on,sve=off,sme=off")}
_OF_UNAME = {"x86_64": "amd64", "aarch64": "arm64"}
# An oops is the end, so that the results say where it happened; whatever warns is on the console.
_PARAMETERS = "oops=panic panic=-1 loglevel=5"


def native_architecture() -> str:
    """Debian's name of this machine's architecture."""
    return _OF_UNAME.get(os.uname().machine, os.uname().machine)


def guest_architecture() -> str:
    """Debian's name of the guests' architecture: this machine's own where SSLLATENCY_GUEST names no other."""
    return os.environ.get("SSLLATENCY_GUEST", native_architecture())


@dataclass(frozen=True)
class Installed:
    """A kernel that the set-up has made ready."""

    name: str
    architecture: str

    @property
    def folder(self) -> Path:
        return FOLDER / self.architecture / self.name

    @property
    def release(self) -> str:
        """What `uname -r` says in the guest; "" where the kernel isn't there."""
        try:
            return str(json.loads((self.folder / "kernel.json").read_text())["release"])
        except (OSError, ValueError, KeyError):
            return ""


@dataclass(frozen=True)
class Disks:
    """The images of the checkout and of the results."""

    checkout: Path
    results: Path


def why_not(architecture: str) -> str:
    """Why this machine can't boot guests of that architecture; "" where it can."""
    program = ARCHITECTURES[architecture].program
    return "" if shutil.which(program) else f"{program} isn't installed (apt-get install {ARCHITECTURES[architecture].package})"


def command(kernel: Installed, root: str, processor: str, disks: Disks, parameters: str) -> list[str]:
    """QEMU with the root of a suite and the checkout, whose changes are forgotten, the results, and the kernel's headers."""
    architecture = ARCHITECTURES[kernel.architecture]
    image = FOLDER / kernel.architecture / f"root-{root}.ext4"
    words = [architecture.program, *architecture.options, *PROCESSORS[processor]]
    words += ["-accel", "tcg,thread=single", "-smp", "2", "-m", "2G"]
    words += ["-nodefaults", "-serial", "stdio", "-display", "none", "-no-reboot", "-nic", "none"]
    words += ["-device", "virtio-rng-pci"]
    words += ["-kernel", str(kernel.folder / "vmlinuz"), "-initrd", str(kernel.folder / "initrd")]
    words += ["-append", f"console={architecture.console} {_PARAMETERS} {parameters}"]
    headers = kernel.folder / "headers.ext4"
    drives = (f"{image},snapshot=on", f"{disks.checkout},snapshot=on", f"{disks.results}", f"{headers},readonly=on")
    for number, drive in enumerate(drives):
        words += ["-drive", f"file={drive},if=none,id=d{number},format=raw", "-device", f"virtio-blk-pci,drive=d{number}"]
    return words
