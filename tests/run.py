#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tiers of tests that this machine can run, and names those that it left out and why.

Usage: run.py TIER… [PYTEST OPTION…] with TIER one of unit, deploy, fuzz, bpf, live, kernels; options as -k EXPRESSION and
--lf are passed on. Or quick alone: the quick ones of the pure tests, and one of each kind of live test, for the inner loop. Or
slow alone: measures the pure tests anew, and lists those that quick is to leave out (tests/slow.py).

The exit status is 1 if a test failed, or if in CI (the environment variable CI is set) a test of a tier that this machine can
run was skipped. Tests that need hardware that this machine lacks are no failure there either (tests/machine.py): each tier's
output names them last, with the reason.

Fuzzing takes one processor and nobody waits for it: where there are several, the tiers of BESIDE_FUZZING run beside it, whose
tests measure no time and use one processor. It is over before any other begins.

A machine that can't trace leaves out bpf and live, one that can't boot guests kernels, one without atheris fuzz. In CI that
is a failure, too, but for the tiers that the environment variable SSLLATENCY_MAY_LEAVE_OUT names, separated by spaces.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP))

from tests import slow  # noqa: E402
from tests.kernels.machine import guest_architecture, why_not  # noqa: E402
from tests.kernels.plans import plans  # noqa: E402

TIERS = ("unit", "deploy", "fuzz", "bpf", "live", "kernels")
BESIDE_FUZZING = ("deploy", "bpf")
QUICK, SLOW = "quick", "slow"
RULES = ("test_imports.py", "test_architecture.py", "test_asserted_times.py", "test_opened_paths.py")
OF_LINT = tuple(f"--deselect=tests/unit/{name}" for name in RULES)  # lint has run these already
BYTECODE = TOP / "build" / "bytecode"
PRIVILEGED = ("bpf", "live")
PARALLEL = ("-n", "auto", "--dist", "worksteal")  # else one worker has minutes left when the others have nothing
QUICK_UNIT = ("tests/unit", "-m", "not slow", "--hypothesis-profile=quick", *OF_LINT, *PARALLEL)
# Most of the time of the verifier's tests passes in the kernel, until no processor can be in a probe that is removed.
SIDE_BY_SIDE = {"unit": PARALLEL, "bpf": ("-n", "4", "--dist", "worksteal")}
ALONE = ("-p", "no:xdist")  # for whose sake the plugin that runs tests again would listen, as a server with TLS does
NONE_CHOSEN = 5  # pytest's exit status where it ran no test
DOCTOR = (TOP / "tools" / "ssllatency", "doctor", "--quiet")
DOCTOR_TIMEOUT_S = 120
FUZZING = ("-m", "tests.fuzz", "--minutes", "3", "--folder", "build/fuzz/test")
FUZZING_LOG = TOP / "build/fuzz/test.log"


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
    chosen = plans(os.environ.get("SSLLATENCY_KERNELS", "ci"), guest_architecture())
    if not any(plan.kernel.release for plan in chosen):
        return "its kernels haven't been fetched (tools/for-tests/setup-kernels)"
    return why_not(guest_architecture())


def no_fuzzer() -> str:
    """Why nothing can be fuzzed here; "" when it can."""
    if platform.machine() != "x86_64":
        return "its seeds are x86-64 code for the machine's own assembler"
    command = [sys.executable, "-c", "import atheris"]
    there = subprocess.run(command, cwd=TOP, env=fuzzing_environment(), capture_output=True, check=False).returncode == 0
    return "" if there else "atheris isn't installed (make test-fuzz does it)"


def fuzzing_environment() -> dict[str, str]:
    """Of a run that is the same each time."""
    paths = (str(TOP / "python"), str(TOP), str(TOP / "build/fuzz/packages"))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONHASHSEED": "0"}


def run_pytest(*words: str, options: Sequence[str] = ()) -> bool:
    """Whether all of those tests passed; where `options` choose among them, none may be left."""
    done = subprocess.run([sys.executable, "-m", "pytest", *words, *options], cwd=TOP, check=False).returncode
    return done == 0 or (bool(options) and done == NONE_CHOSEN)


def run_tier(tier: str, options: Sequence[str] = ()) -> bool:
    """Whether all tests of the tier passed, or those of them that pytest's `options` choose."""
    print(f"==> tests/{tier}", flush=True)
    began = time.monotonic()
    passed = run_pytest(f"tests/{tier}", *SIDE_BY_SIDE.get(tier, ALONE), options=options)
    print(f"==> tests/{tier} {'passed' if passed else 'failed'} after {time.monotonic() - began:.0f} s", flush=True)
    return passed


class Fuzzing:
    """The tier of that name, which other tiers may run beside."""

    def __init__(self) -> None:
        FUZZING_LOG.parent.mkdir(parents=True, exist_ok=True)
        with FUZZING_LOG.open("wb") as log:
            command = ["nice", "-n", "19", sys.executable, *FUZZING]  # whatever needs a processor beside it comes first
            self._process = subprocess.Popen(command, cwd=TOP, env=fuzzing_environment(), stdout=log, stderr=log)

    def passed(self) -> bool:
        """Whether every invariant held, once it is over."""
        status = self._process.wait()
        print(f"==> tests/fuzz\n{FUZZING_LOG.read_text(errors='replace')}", end="", flush=True)
        return status == 0


def run_tiers(tiers: Sequence[str], options: Sequence[str]) -> list[str]:
    """Runs these; those that failed."""
    failed, fuzzing = [], None
    for tier in tiers:
        if fuzzing and (tier not in BESIDE_FUZZING or processors() < 2):
            failed += [] if fuzzing.passed() else ["fuzz"]
            fuzzing = None
        if tier == "fuzz":
            fuzzing = Fuzzing()
        elif not run_tier(tier, options):
            failed.append(tier)
    return failed + (["fuzz"] if fuzzing and not fuzzing.passed() else [])


def processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0))


def keep_bytecode() -> None:
    """Has Python keep what it compiles, also where the environment forbids that beside the sources: else each process of the
    tests compiles all of them."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(BYTECODE)


def run_quick() -> bool:
    """Whether the quick ones of the pure tests passed, and one of each live kind where this machine can trace."""
    print("==> quick tests", flush=True)
    passed = run_pytest(*QUICK_UNIT)
    if why := obstacle():
        print(f"==> smoke tests left out: {why}")
        return passed
    return run_pytest("tests/live", "-m", "smoke and not slow", *ALONE) and passed


def list_slow() -> bool:
    """Whether the pure tests passed that aren't marked as slow; lists those of them that take most."""
    slow.LISTED.write_text("")
    words = (sys.executable, "-m", "pytest", *QUICK_UNIT, "--durations=0", "--durations-min=0.001")
    done = subprocess.run(words, cwd=TOP, stdout=subprocess.PIPE, text=True, check=False)
    slow.LISTED.write_text("".join(f"{test}\n" for test in slow.choose(done.stdout)))
    return done.returncode == 0


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(allow_abbrev=False, description="Runs tiers of tests; other options are pytest's.")
    parser.add_argument("tiers", nargs="+", choices=(*TIERS, QUICK, SLOW), metavar="TIER")
    parser.add_argument("-k", metavar="EXPRESSION", default="", help="only tests that match, as pytest has it")
    parsed, options = parser.parse_known_args()
    options += ["-k", parsed.k] if parsed.k else []
    keep_bytecode()
    if QUICK in parsed.tiers:
        return int(not run_quick())
    if SLOW in parsed.tiers:
        return int(not list_slow())
    tiers = parsed.tiers
    why = obstacle() if set(tiers) & set(PRIVILEGED) else ""
    left_out = {tier: why for tier in tiers if why and tier in PRIVILEGED}
    if "kernels" in tiers and (no_kernel := no_guests()):
        left_out["kernels"] = no_kernel
    if "fuzz" in tiers and (no_atheris := no_fuzzer()):
        left_out["fuzz"] = no_atheris
    failed = run_tiers([tier for tier in tiers if tier not in left_out], options)
    for tier, reason in left_out.items():
        print(f"==> tests/{tier} left out: {reason}")
    if os.environ.get("CI"):
        failed += left_out.keys() - set(os.environ.get("SSLLATENCY_MAY_LEAVE_OUT", "").split())
    if failed:
        print(f"==> failed: {' '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
