# SPDX-License-Identifier: Apache-2.0
"""Puts the kernel side into the wheel: the BPF objects, compiled where `make` hasn't yet, and what bcc compiles."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg, misc]
    """Called by hatchling before it packs the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds build/*.bpf.o and the sources to the package; fails with make's own message where one can't be compiled."""
        del version
        subprocess.run(["make", "--no-print-directory", "bpf"], cwd=self.root, check=True)
        for source in Path(self.root, "bpf").glob("*.bpf.c"):
            name = f"{source.stem}.o"
            build_data["force_include"][str(Path(self.root, "build", name))] = f"ssllatency/{name}"
        for source in (*Path(self.root, "bpf").glob("*.h"), *Path(self.root, "bpf", "bcc").rglob("*.[ch]")):
            build_data["force_include"][str(source)] = f"ssllatency/{source.relative_to(self.root)}"
