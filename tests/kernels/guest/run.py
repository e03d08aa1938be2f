# SPDX-License-Identifier: Apache-2.0
"""Carries out the checks that the kernel's command line names (`checks=a_check,another`). Each result is on the disk before
the next check begins, so that a kernel that falls over takes none of them along; the last one is the kernel's log."""

from __future__ import annotations

import os
import subprocess
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.kernels.guest.checks.catalogue import CHECKS, parameter
from tests.kernels.guest.servers import allow_more_time
from tests.kernels.guest.ways import Refused
from tests.kernels.results import KERNEL_LOG, Outcome, Result

RESULTS_DISK = Path("/dev/vdc")
_LOG_BYTES = 200_000


def carry_out(name: str, check: Callable[[], dict[str, Any] | None]) -> Result:
    """The result of one check."""
    began = time.monotonic()
    outcome, detail, facts = Outcome.PASSED, "", None
    try:
        facts = check()
    except Refused as refusal:
        outcome, detail = Outcome.REFUSED, str(refusal)
    except Exception as error:
        outcome, detail = Outcome.FAILED, f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}"
    return Result(name, outcome, detail[-4000:], round(time.monotonic() - began, 1), facts or {})


class ResultsDisk:
    """The results, one after the other, each on the disk before the next check begins."""

    def __init__(self, path: Path = RESULTS_DISK) -> None:
        self._descriptor, self._end = os.open(path, os.O_WRONLY | os.O_SYNC), 0

    def add(self, result: Result) -> None:
        """Writes a result behind the others."""
        line = result.to_line()
        os.pwrite(self._descriptor, line, self._end)
        self._end += len(line)


def main() -> None:
    allow_more_time()
    disk = ResultsDisk()
    print(f"guest: Linux {os.uname().release} after {Path('/proc/uptime').read_text().split()[0]} s", flush=True)
    for name in parameter("checks").replace("_", " ").split(","):
        result = carry_out(name, CHECKS[name])
        disk.add(result)
        print(f"guest: {name}: {result.outcome} in {result.seconds} s {result.detail}", flush=True)
    log = subprocess.run(["dmesg"], capture_output=True, text=True, errors="replace", check=False).stdout
    disk.add(Result(KERNEL_LOG, Outcome.PASSED, facts={"text": log[-_LOG_BYTES:]}))


if __name__ == "__main__":
    main()
