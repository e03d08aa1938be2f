# SPDX-License-Identifier: Apache-2.0
"""Unpacks Debian's Prometheus into build/prometheus/SUITE: sid's, which is a 3.x, and bookworm's 2.42. Nothing is installed.

What is there already is left alone. What can't be had, or doesn't run here, is named, its reason is kept in
build/prometheus/SUITE.missing, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import sys
import time

from tests.kernels.debian import SetupError, Suite, run, unpack
from tests.prometheus.programs import FOLDER, NAMES, PACKAGES, SUITES, versions

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def make(suite: str) -> None:
    """Makes build/prometheus/SUITE, in whole or not at all."""
    started, new = time.monotonic(), FOLDER / f"{suite}.partial"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    archives = Suite(suite, _ARCHITECTURES[platform.machine()], FOLDER).fetch(PACKAGES[suite])
    for archive in archives:
        unpack(archive, new)
        archive.unlink()
    for name in NAMES:
        run(new / "usr" / "bin" / name, "--version")
    (new / "packages").write_text("".join(f"{archive.name.removesuffix('.deb')}\n" for archive in archives))
    shutil.rmtree(FOLDER / suite, ignore_errors=True)
    new.rename(FOLDER / suite)
    print(f"==> build/prometheus/{suite} made in {time.monotonic() - started:.0f} s", flush=True)


def make_all(suites: list[str]) -> bool:
    """Whether all could be had."""
    complete = True
    for suite in suites:
        missing = FOLDER / f"{suite}.missing"
        try:
            if not versions(suite):
                make(suite)
            print(f"==> build/prometheus/{suite}: {', '.join(versions(suite).split())}")
            missing.unlink(missing_ok=True)
        except (SetupError, OSError) as reason:
            missing.write_text(f"{reason}\n")
            print(f"setup-prometheus: no Prometheus of {suite}: {reason}", file=sys.stderr)
            complete = False
    return complete


def main() -> int:
    parser = argparse.ArgumentParser(prog="setup-prometheus", description="Unpacks Debian's Prometheus into build/prometheus.")
    parser.add_argument("suite", nargs="*", help=f"of {', '.join(SUITES)}; all if none is given")
    suites: list[str] = parser.parse_args().suite or list(SUITES)
    if unknown := [suite for suite in suites if suite not in SUITES]:
        parser.error(f"there is no {unknown[0]} here: choose from {', '.join(SUITES)}")
    return 0 if make_all(suites) else 1


if __name__ == "__main__":
    sys.exit(main())
