# SPDX-License-Identifier: Apache-2.0
"""A tracer in a process of its own, for tests that kill it.

    python -m tests.bpf.tracer ENGINE METHOD EXITS FILE PID

attaches to FILE in the process PID, says "attached" and waits. EXITS is "exits" or "returns": how calls are seen to end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ssllatency.elf.image import Image
from ssllatency.engines import choice
from ssllatency.engines.base import Request, TracedImage
from ssllatency.model.snapshot import Target
from ssllatency.probes.plan import FilePlan, Role
from ssllatency.probes.planner import plan_image
from ssllatency.probes.settings import PlanSettings

TOP = Path(__file__).resolve().parents[2]


@contextmanager
def tracer(plan: FilePlan, pid: int, engine: str = "libbpf", method: str = "auto") -> Iterator[subprocess.Popen[str]]:
    """The process, attached. Killed at the end of the block, where it still runs."""
    returns = any(probe.role is Role.RETURN for planned in plan.operations for probe in planned.probes)
    words = [engine, method, "returns" if returns else "exits", plan.path, str(pid)]
    command = [sys.executable, "-P", "-m", "tests.bpf.tracer", *words]
    environment = {**os.environ, "PYTHONPATH": f"{TOP / 'python'}:{TOP}"}
    with subprocess.Popen(command, cwd=TOP, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "attached\n"
            yield process
        finally:
            process.kill()


def main(engine: str, method: str, exits: str, file: str, pid: str) -> None:
    plan = plan_image(Image.open(file), PlanSettings(prefer_return_probes=exits == "returns"))
    image = TracedImage(plan, plan.path, (int(pid),))
    session = choice.engine(engine).attach(Request((image,), (Target(int(pid), "target", ()),), method=method))
    print("attached", flush=True)
    signal.pause()
    session.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
