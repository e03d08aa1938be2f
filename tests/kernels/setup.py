# SPDX-License-Identifier: Apache-2.0
"""Makes build/kernels: for each architecture the roots and the kernels that guests boot. Quick when nothing has changed.

Usage: python -m tests.kernels.setup [--architecture amd64|arm64] [KERNEL…], with KERNEL of packages.WANTED; all of them if none
is given. A kernel of the mirror that is newer than the one that is there replaces it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

from tests.kernels.debian import SetupError, Suite, unpack
from tests.kernels.images import MODULES, make_headers, make_initrd, make_root, make_site
from tests.kernels.machine import ARCHITECTURES, FOLDER, native_architecture
from tests.kernels.packages import WANTED, Kernel, choose
from tests.kernels.plans import roots_for


class Suites:
    """The suites of one architecture, each asked for at most once."""

    def __init__(self, architecture: str) -> None:
        self.architecture = architecture
        self._suites: dict[str, Suite] = {}

    def __getitem__(self, name: str) -> Suite:
        if name not in self._suites:
            self._suites[name] = Suite(name, self.architecture, FOLDER)
        return self._suites[name]

    def kernel_names(self, suite: str) -> list[str]:
        """The names of a suite's kernel packages; none, and why, where the mirror hasn't the suite."""
        try:
            return self[suite].names("linux-")
        except SetupError as error:
            print(f"setup-kernels: no kernels of {suite}: {error}", file=sys.stderr)
            return []


def install(kernel: Kernel, suite: Suite, folder: Path, busybox: Path) -> None:
    """FOLDER/vmlinuz, FOLDER/initrd, FOLDER/headers.ext4 and FOLDER/kernel.json, written last."""
    made, headers = folder / "kernel.json", folder / "headers.ext4"
    description = {"release": kernel.release, "suite": kernel.suite, "modules": list(MODULES)}
    if made.exists() and headers.exists() and json.loads(made.read_text()) == description:
        return
    print(f"==> fetching Linux {kernel.release} from {kernel.suite}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    unpacked = folder / "unpacked"
    unpacked.mkdir(parents=True)
    for archive in suite.fetch(kernel.packages):
        unpack(archive, unpacked)
    images = [path for path in sorted(unpacked.rglob("vmlinu*")) if path.is_file()]
    if not images:
        raise SetupError(f"the packages of Linux {kernel.release} hold no vmlinuz")
    shutil.copy(images[0], folder / "vmlinuz")
    make_initrd(unpacked, busybox, folder / "initrd")
    shutil.rmtree(unpacked)
    make_headers(suite.fetch(kernel.headers), headers)
    made.write_text(json.dumps(description) + "\n")


def set_up(architecture: str, names: list[str]) -> None:
    """All that guests of this architecture with these kernels need. SetupError where a part of it can't be had."""
    folder, suites = FOLDER / architecture, Suites(architecture)
    folder.mkdir(parents=True, exist_ok=True)
    for root in roots_for(names):
        make_root(suites[root], folder)
    make_site(architecture, folder)
    for name in names:
        wanted = WANTED[name]
        kernel = choose(wanted, {suite: suites.kernel_names(suite) for suite in wanted.suites}, architecture)
        if kernel is None:
            raise SetupError(f"the mirror has no kernel {name} in {' or '.join(wanted.suites)}")
        install(kernel, suites[kernel.suite], folder / name, folder / "busybox")
        print(f"==> {name}: Linux {kernel.release} from {kernel.suite}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Fetches and makes what tests/kernels boots, in build/kernels.")
    parser.add_argument("--architecture", choices=tuple(ARCHITECTURES), default=native_architecture())
    parser.add_argument("kernel", nargs="*", help=f"which kernels; all if none is given: {', '.join(WANTED)}")
    options = parser.parse_args()
    unknown = [name for name in options.kernel if name not in WANTED]
    if unknown:
        parser.error(f"no kernel is called {' or '.join(unknown)}: choose from {', '.join(WANTED)}")
    try:
        set_up(options.architecture, options.kernel or list(WANTED))
    except SetupError as error:
        print(f"setup-kernels: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
