# SPDX-License-Identifier: Apache-2.0
"""A program of our own under the real engine."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ssllatency.elf.image import Image
from ssllatency.engines.base import Request, TracedImage
from ssllatency.engines.bpf import kernel
from ssllatency.engines.sessions.libbpf_engine import LibbpfEngine
from ssllatency.engines.sessions.trace import TraceSession
from ssllatency.host.kernel import machine
from ssllatency.model.snapshot import Outcome, Snapshot, Target
from ssllatency.probes.plan import FilePlan, Role
from ssllatency.probes.planner import plan_image
from ssllatency.probes.settings import PlanSettings
from tests.bpf.compiling import SOURCES
from tests.stock import with_return_probes

# int3, and the brk that arm64's kernel takes for uprobes (BRK64_OPCODE_UPROBES).
BREAKPOINT = {"x86-64": b"\xcc", "aarch64": bytes.fromhex("a00020d4")}[machine()]
METHODS = ("perf", "multi", "session")


@pytest.fixture(scope="session")
def built_target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("built") / "target"
    source = SOURCES / "target.c"
    flags = ["-O2", "-fstack-protector-strong", "-rdynamic", "-pthread"]
    subprocess.run(["gcc", *flags, source, "-o", path], check=True)
    return path


@pytest.fixture
def target_file(built_target: Path, tmp_path: Path) -> Path:
    """A copy of its own for each test: an earlier test's probes may still be in the file they were set in, as perf events are
    left to the kernel, which takes 0.1 s to remove each."""
    return Path(shutil.copy(built_target, tmp_path / "target"))


@pytest.fixture(params=["exit sites", "return probes"])
def target_plan(request: pytest.FixtureRequest, target_file: Path) -> FilePlan:
    wanted = request.param == "return probes"
    plan = plan_image(Image.open(target_file), PlanSettings(prefer_return_probes=wanted))
    if wanted and machine() == "aarch64":  # where they are never the cheaper ones
        plan = with_return_probes(plan)
    roles = {probe.role for planned in plan.operations for probe in planned.probes}
    assert (Role.RETURN in roles) == wanted
    return plan


@pytest.fixture(params=METHODS)
def method(request: pytest.FixtureRequest) -> str:
    order = list(kernel.Method)
    if order.index(kernel.Method(request.param)) > order.index(kernel.best_method()):
        pytest.skip(f"this kernel has no {request.param} attachment")
    return str(request.param)


@dataclass
class Subject:
    """The running program."""

    process: subprocess.Popen[str]
    plan: FilePlan

    @property
    def pid(self) -> int:
        return self.process.pid

    def say(self, *words: object) -> None:
        assert self.process.stdin
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def do(self, *words: object) -> None:
        """Has it carry out a command, to the end."""
        assert self.process.stdout
        self.say(*words)
        assert self.process.stdout.readline() == "done\n"

    def request(self, **more: object) -> Request:
        file = TracedImage(self.plan, self.plan.path, (self.pid,))
        return replace(Request((file,), (Target(self.pid, "target", ()),)), **more)  # type: ignore[arg-type]

    def attach(self, **more: object) -> TraceSession:
        return LibbpfEngine().attach(self.request(**more))


@contextmanager
def answering(program: str | Path) -> Iterator[subprocess.Popen[str]]:
    """A program that says when it is ready, and ends when its standard input does."""
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield process
        assert process.stdin
        process.stdin.close()
        assert process.wait(10) == 0


@contextmanager
def running(plan: FilePlan) -> Iterator[Subject]:
    """The program, started and ended."""
    with answering(plan.path) as process:
        yield Subject(process, plan)


@contextmanager
def running_as_one_of(plan: FilePlan, pids: Iterable[int]) -> Iterator[Subject]:
    """The same with one of these PIDs, as somebody gets it who forks until it fits."""
    last = Path("/proc/sys/kernel/ns_last_pid")
    if not last.exists():
        pytest.skip("this kernel lets nobody choose a PID (CONFIG_CHECKPOINT_RESTORE)")
    for pid in pids:
        last.write_text(str(pid - 1))
        with running(plan) as started:
            if started.pid == pid:
                yield started
                return
    raise AssertionError("other processes took all of these PIDs")


@pytest.fixture
def subject(target_plan: FilePlan) -> Iterator[Subject]:
    with running(target_plan) as started:
        yield started


def counts(snapshot: Snapshot) -> dict[tuple[str, Outcome], int]:
    """Calls by function and outcome, over all processes."""
    added: dict[tuple[str, Outcome], int] = {}
    for one in snapshot.series:
        added[one.function, one.outcome] = added.get((one.function, one.outcome), 0) + one.count
    return added


def breakpoints(subject: Subject) -> int:
    """How many of the planned sites hold a breakpoint in the program's memory."""
    mapped = [line.split() for line in Path(f"/proc/{subject.pid}/maps").read_text().splitlines() if line.endswith("/target")]
    start = int(mapped[0][0].split("-")[0], 16)
    sites = [probe.address for planned in subject.plan.operations for probe in planned.probes]
    with Path(f"/proc/{subject.pid}/mem").open("rb") as memory:
        return sum(memory.seek(start + site) and memory.read(len(BREAKPOINT)) == BREAKPOINT for site in sites)
