# SPDX-License-Identifier: Apache-2.0
"""One guest from its start to its end: what it was to check, what its checks found, what its kernel said."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.kernels.console import complaints
from tests.kernels.machine import FOLDER, Disks, command
from tests.kernels.plans import Plan
from tests.kernels.results import KERNEL_LOG, Result, read_results

_RESULTS_BYTES = 4 << 20


@dataclass(frozen=True)
class Ended:
    """How a guest ended: `results` by check, `complaints` of its kernel, `trouble` where it didn't come to its end, else ""."""

    release: str
    results: dict[str, Result]
    complaints: list[str]
    trouble: str
    seconds: float


def boot(plan: Plan, checkout: Path) -> Ended:
    """Boots a guest, has it carry out the checks and waits until it is off; kills it at the limit."""
    kernel = plan.kernel
    with tempfile.TemporaryDirectory(prefix="guest-", dir=FOLDER) as name:
        disk, console = Path(name, "results"), Path(name, "console")
        with disk.open("wb") as file:
            file.truncate(_RESULTS_BYTES)
        parameters = f"{plan.parameters} checks={','.join(plan.checks).replace(' ', '_')}".strip()
        words = command(kernel, plan.root, plan.processor, Disks(checkout, disk), parameters)
        began = time.monotonic()
        trouble = _run(words, console, plan.limit_s)
        seconds = time.monotonic() - began
        found = {result.check: result for result in read_results(disk.read_bytes())}
        said = console.read_text(errors="replace")
        (FOLDER / f"{kernel.architecture}-{kernel.name}.console").write_text(said)
    log = found.pop(KERNEL_LOG, None)
    if log is None:
        trouble = trouble or f"the guest ended early; its console ends with: {said[-600:].strip()}"
    said += str(log.facts["text"]) if log else ""
    return Ended(kernel.release, found, complaints(said), trouble, round(seconds, 1))


def _run(words: list[str], console: Path, limit_s: float) -> str:
    """Why QEMU didn't end by itself, or failed; "" where all is well."""
    with console.open("wb") as output:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return f"the guest wasn't done after {limit_s:.0f} s"
        finally:
            process.kill()
            process.wait()
    return f"{words[0]} failed with status {status}: {console.read_text(errors='replace')[-300:]}" if status else ""


def keep(plan: Plan, ended: Ended) -> None:
    """Writes what a guest found to build/kernels/results, where the table and whoever looks into a failure finds it."""
    folder = FOLDER / "results"
    folder.mkdir(parents=True, exist_ok=True)
    kernel = plan.kernel
    document = {**asdict(ended), "kernel": kernel.name, "architecture": kernel.architecture}
    document |= {"root": plan.root, "processor": plan.processor}
    path = folder / f"{kernel.architecture}-{plan.name}.json"
    path.write_text(json.dumps(with_earlier(document, path), indent=1) + "\n")


def with_earlier(document: dict[str, Any], path: Path) -> dict[str, Any]:
    """The document with the other results and the complaints of the last guest of this name that had the same kernel."""
    try:
        earlier = json.loads(path.read_text())
    except (OSError, ValueError):
        return document
    if earlier["release"] != document["release"]:
        return document
    if set(earlier["results"]) <= set(document["results"]):
        return document
    complaints = list(dict.fromkeys((*earlier["complaints"], *document["complaints"])))
    return {**document, "results": {**earlier["results"], **document["results"]}, "complaints": complaints}
