# SPDX-License-Identifier: Apache-2.0
"""Puts into the wheel what isn't Python: the BPF objects, what bcc compiles, what an installation has beside the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg, misc]
    """Called by hatchling before it packs the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds build/*.bpf.o and the sources to the package, and build/prefix; fails with make's own message where one can't be
        made."""
        del version
        make = ["make", "--no-print-directory", "bpf-all", "prefix", f"PYTHON={sys.executable}"]
        subprocess.run(make, cwd=self.root, check=True)
        top = Path(self.root)
        for source in (top / "bpf").glob("*.bpf.c"):
            for machine in ("x86_64", "aarch64"):
                name = f"{machine}/{source.stem}.o"
                build_data["force_include"][str(top / "build" / name)] = f"ssllatency/{name}"
        for source in (*(top / "bpf").rglob("*.h"), *(top / "bpf" / "bcc").glob("*.c")):
            build_data["force_include"][str(source)] = f"ssllatency/{source.relative_to(top)}"
        build_data["shared_data"][str(top / "build" / "prefix" / "share")] = "share"
        for program in (top / "build" / "prefix" / "bin").iterdir():
            build_data["shared_scripts"][str(program)] = program.name
