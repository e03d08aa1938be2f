#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tiers of tests that this machine can run, and names those that it left out and why.

Usage: run.py TIER… with TIER one of unit, fuzz, load, live, kernels. The exit status is 1 if a test failed, or if in CI (the
environment variable CI is set) a test of a tier that this machine can run was skipped. Tests that need hardware that this
machine lacks are no failure there either (tests/machine.py): each tier's output names them last, with the reason.

A machine that can't trace leaves out load and live, one that can't boot guests kernels, one without atheris fuzz. In CI that
is a failure, too, but for the tiers that the environment variable SSLLATENCY_MAY_LEAVE_OUT names, separated by spaces.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP))

from tests.kernels.machine import native_architecture, why_not  # noqa: E402
from tests.kernels.plans import plans  # noqa: E402

PRIVILEGED = ("load", "live")
DOCTOR = (TOP / "tools" / "ssllatency", "doctor", "--quiet")
DOCTOR_TIMEOUT_S = 120


def obstacle() -> str:
    """Why this machine can't trace; "" when it can. RuntimeError where the doctor failed, which says nothing of the machine."""
    asked = subprocess.run(DOCTOR, capture_output=True, text=True, timeout=DOCTOR_TIMEOUT_S, check=False)
    if asked.returncode == 0:
        return ""
    told = asked.stdout.strip()
    if asked.returncode != 1 or not told or asked.stderr.strip():
        raise RuntimeError(f"the doctor failed with status {asked.returncode}: {asked.stderr.strip() or told}")
    return told


def no_guests() -> str:
    """Why no other kernel can be booted here; "" when one can."""
    chosen = plans(os.environ.get("SSLLATENCY_KERNELS", "ci"), native_architecture())
    if not any(plan.kernel.release for plan in chosen):
        return "its kernels haven't been fetched (tools/setup-kernels)"
    return why_not(native_architecture())


def no_fuzzer() -> str:
    """Why nothing can be fuzzed here; "" when it can."""
    if platform.machine() != "x86_64":
        return "its seeds are x86-64 code for the machine's own assembler"
    command = [sys.executable, "-c", "import atheris"]
    there = subprocess.run(command, cwd=TOP, env=fuzzing_environment(), capture_output=True, check=False).returncode == 0
    return "" if there else "atheris isn't installed (make fuzz-minute does it)"


def fuzzing_environment() -> dict[str, str]:
    """Of a run that is the same each time."""
    paths = (str(TOP / "python"), str(TOP), str(TOP / "build/fuzz/packages"))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONHASHSEED": "0"}


def run_tier(tier: str) -> bool:
    """Whether all tests of the tier passed."""
    print(f"==> tests/{tier}", flush=True)
    if tier == "fuzz":
        command = [sys.executable, "-m", "tests.fuzz", "--minute", "--folder", "build/fuzz/minute"]
        return subprocess.run(command, cwd=TOP, env=fuzzing_environment(), check=False).returncode == 0
    command = [sys.executable, "-m", "pytest", f"tests/{tier}"]
    return subprocess.run(command, cwd=TOP, check=False).returncode == 0


def main() -> int:
    """The exit status."""
    tiers = sys.argv[1:]
    why = obstacle() if set(tiers) & set(PRIVILEGED) else ""
    left_out = {tier: why for tier in tiers if why and tier in PRIVILEGED}
    if "kernels" in tiers and (no_kernel := no_guests()):
        left_out["kernels"] = no_kernel
    if "fuzz" in tiers and (no_atheris := no_fuzzer()):
        left_out["fuzz"] = no_atheris
    failed = [tier for tier in tiers if tier not in left_out and not run_tier(tier)]
    for tier, reason in left_out.items():
        print(f"==> tests/{tier} left out: {reason}")
    if os.environ.get("CI"):
        failed += left_out.keys() - set(os.environ.get("SSLLATENCY_MAY_LEAVE_OUT", "").split())
    if failed:
        print(f"==> failed: {' '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
