# SPDX-License-Identifier: Apache-2.0
"""The two processes' ends of what goes between them, and the options that are refused."""

from __future__ import annotations

import ctypes
import json
import math
import os
import pwd
import resource
import socket
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
from tests.fixtures.filters import X86_64, answer

from ssllatency.cli.command_line import build_parser, run
from ssllatency.cli.live import export
from ssllatency.errors import SsllatencyError
from ssllatency.export.metrics.points import Frames, NoReading, Reading
from ssllatency.export.split import confinement, tracer
from ssllatency.export.split.channel import ASK, READY, Broken, SpeakersEnd, TracersEnd
from ssllatency.export.split.confinement import confine, system_call_filter, user_ids
from ssllatency.export.split.speaker import TracerReadings
from ssllatency.export.split.tracer import Tracer


def test_a_reading_is_asked_for_once_and_handed_out_to_all() -> None:
    ours, theirs = socket.socketpair()
    tracer, source = TracersEnd(ours), TracerReadings(SpeakersEnd(theirs))
    listening = threading.Thread(target=source.listen)
    listening.start()
    with pytest.raises(NoReading):
        source.read()
    tracer.send(READY + b"\n")
    found: list[Reading] = []
    readers = [threading.Thread(target=lambda: found.append(_ready(source))) for _ in range(3)]
    for reader in readers:
        reader.start()
    assert ours.recv(100) == ASK
    tracer.send(Frames().frame(Reading("host", 1.0)))
    for reader in readers:
        reader.join()
    assert found == [Reading("host", 1.0)] * 3
    ours.setblocking(False)
    with pytest.raises(BlockingIOError):
        ours.recv(1)
    tracer.close()
    listening.join()


def _ready(source: TracerReadings) -> Reading:
    while not source.ready:
        pass
    return source.read()


def test_an_end_that_is_gone_is_noticed() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    tracer = TracersEnd(ours)
    calls: list[Callable[[], object]] = [tracer.asked, tracer.first_line, lambda: tracer.send(b"x\n")]
    for call in calls:
        with pytest.raises(Broken):
            call()


def test_what_is_said_first_is_bounded() -> None:
    ours, theirs = socket.socketpair()
    SpeakersEnd(theirs).say("1 no\nway " + "x" * 10_000)
    words = TracersEnd(ours).first_line()
    assert words.startswith("1 no way x")
    assert len(words) <= 4096
    for end in (ours, theirs):
        end.close()


def test_the_filter_refuses_what_it_names_and_no_more() -> None:
    refused = sorted({101, 321})
    made = system_call_filter(X86_64, refused, 56, 302)
    allowed, refusal = answer(made, 0), answer(made, 101)
    assert allowed & 0x7FFF0000 == 0x7FFF0000 != refusal & 0x7FFF0000
    assert [answer(made, number) for number in (0, 100, 101, 102, 321, 322)] == [
        *(allowed, allowed, refusal, allowed, refusal, allowed)
    ]
    assert answer(made, 0x40000000 | 321) == refusal  # by the x32 numbers as well
    assert answer(made, 0, architecture=0x40000003) == 0x80000000
    assert [answer(made, 56, flags) for flags in (0x3D0F00, 17, 0x10000000)] == [allowed, refusal, refusal]
    assert [answer(made, 302, pid) for pid in (0, 77)] == [allowed, refusal]
    assert answer(made, 435) == 0x00050000 | 38


def confined(folder: Path) -> dict[str, bool]:
    """What a process can do that has given all of that up."""
    reading, writing = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            (folder / "plan").chmod(0o666)
            confine(user_ids("nobody"), parent)
            os.write(writing, json.dumps(_tries(folder / "plan", parent)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        found: dict[str, bool] = json.loads(file.read())
    os.waitpid(child, 0)
    return found


def _tries(plan: Path, parent: int) -> dict[str, bool]:
    def can(do: Callable[[], object]) -> bool:
        try:
            do()
        except OSError:
            return False
        return True

    def memory() -> None:
        with Path(f"/proc/{parent}/mem").open("r+b", buffering=0):
            pass

    def thread() -> None:
        started = threading.Thread(target=lambda: None)
        started.start()
        started.join()

    return {
        "read a file": can(plan.read_text),
        "start a thread": can(thread),
        "write a file": can(lambda: plan.write_text("another")),
        "cut one short": can(lambda: os.truncate(plan, 0)),
        "make one": can(lambda: (plan.parent / "new").touch()),
        "remove one": can(plan.unlink),
        "fork": can(lambda: os.fork() or os._exit(0)),
        "signal": can(lambda: os.kill(parent, 0)),
        "open memory": can(memory),
        "limit others": can(lambda: resource.prlimit(parent, resource.RLIMIT_NOFILE)),
    }


def test_who_speaks_can_neither_write_nor_run_nor_reach_others() -> None:
    """Whichever user it is: the service has but one. The folder here is open to everybody."""
    if confinement._landlock(ctypes.CDLL(None)) < 1:
        pytest.skip("this kernel has no Landlock")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "plan").write_text("a plan")
        can = confined(folder)
        assert {what for what, possible in can.items() if possible} == {"read a file", "start a thread"}
        assert [path.name for path in folder.iterdir()] == ["plan"]
        assert (folder / "plan").read_text() == "a plan"


@pytest.mark.parametrize(
    ("user", "version", "kept"),
    [(0, -1, True), (1000, 1, True), (1000, -1, False)],
    ids=["another user", "Landlock", "neither"],
)
def test_plans_are_not_kept_where_the_process_that_speaks_could_write_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], user: int, version: int, kept: bool
) -> None:
    """Whoever took it over could name a site in the middle of an instruction, which would be believed at the next start."""
    monkeypatch.setattr(confinement.os, "geteuid", lambda: user)
    monkeypatch.setattr(confinement, "_landlock", lambda _: version)
    monkeypatch.setattr(export.speaker, "start", MagicMock())
    monkeypatch.setattr(export.live, "prepare", lambda: None)
    traced = MagicMock()
    monkeypatch.setattr(tracer, "run", traced)
    arguments = build_parser("export").parse_args(["export"])
    assert export.run(arguments) == 0
    assert traced.call_args.args[1].no_cache is not kept
    assert ("plans are made anew" in capsys.readouterr().err) is not kept


def test_the_user_is_one_without_privileges() -> None:
    assert 0 not in user_ids("nobody")
    entry = next(entry for entry in pwd.getpwall() if entry.pw_uid and entry.pw_gid)
    assert user_ids(entry.pw_name) == user_ids(str(entry.pw_uid)) == (entry.pw_uid, entry.pw_gid)
    for name in ("root", "0", "no-such-user"):
        with pytest.raises(SsllatencyError, match="--user"):
            user_ids(name)


WRONG = {
    "--listen 127.0.0.1": "isn't ADDRESS:PORT",
    "--listen ::1:9743": "isn't ADDRESS:PORT",
    "--listen none": "nobody to export to",
    "--listen none --otlp http://a --web-config x": "leave --listen none out",
    "--otlp nowhere": "isn't the URL",
    "--user root": "can't be root",
    "--web-config /no/such/file --listen 127.0.0.1:1": "can't be read",
}


@pytest.mark.parametrize("options", WRONG)
def test_what_is_refused_is_one_sentence(options: str, capfd: pytest.CaptureFixture[str]) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert run(["export", *options.split()]) in (1, 2)
    said = capfd.readouterr().err
    assert WRONG[options] in said
    assert said.count("\n") == 1
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_processes_that_read_files_are_heard_while_nobody_asks() -> None:
    """Until then they wait, with all their memory."""
    ours, theirs = socket.socketpair()
    heard: list[str] = []

    def gather() -> None:
        heard.append("gather")
        theirs.close()

    session = SimpleNamespace(poll=lambda: None, due_s=math.inf, rests=False)
    follower = SimpleNamespace(wait=lambda _seconds, also: also >= 0 and bool(heard))
    tracing = Tracer(session, follower, TracersEnd(ours), SimpleNamespace(), gather=gather)  # type: ignore[arg-type]
    with pytest.raises(SsllatencyError, match="has ended"):
        tracing.run(tidy_s=float("inf"))
    assert heard == ["gather"]


@pytest.mark.parametrize(("due_s", "rests", "look_s"), [(0, False, 0.01), (math.inf, False, 0.25), (math.inf, True, 0.5)])
def test_it_is_looked_less_often_while_nobody_works(due_s: float, rests: bool, look_s: float) -> None:
    ours, theirs = socket.socketpair()
    waited: list[float] = []

    def wait(seconds: float, also: int) -> bool:
        assert also >= 0
        waited.append(seconds)
        theirs.close()
        return True

    session = SimpleNamespace(poll=lambda: None, due_s=due_s, rests=rests)
    tracing = Tracer(session, SimpleNamespace(wait=wait), TracersEnd(ours), SimpleNamespace())  # type: ignore[arg-type]
    with pytest.raises(SsllatencyError, match="has ended"):
        tracing.run(tidy_s=float("inf"))
    assert waited == [look_s]
