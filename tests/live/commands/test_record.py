# SPDX-License-Identifier: Apache-2.0
"""`ssllatency record` of real servers: every handshake is in some interval, a kill loses the last one at most, and `diff` names
what another key changes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ssllatency.model.arithmetic.handshake_sums import total
from ssllatency.model.handshakes import Ending
from ssllatency.model.recording import Recording
from ssllatency.model.snapshot import Outcome, Snapshot
from ssllatency.reports.documents.document import from_document
from ssllatency.reports.documents.recording_reading import from_text
from ssllatency.tracing.late.notes import LOOK_S
from tests import schema
from tests.live.clients.counted import TLS_1_3, Client
from tests.live.commands.trace import PROGRAM, Trace
from tests.live.servers.late import late
from tests.live.servers.nginx import Nginx, Settings, libssl_of
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("tracing")

EACH = 20


class Record(Trace):
    """`ssllatency record` with intervals of half a second; `file` is where it writes."""

    SUBCOMMAND = "record"

    def __init__(self, file: Path, *pids: int, options: tuple[str, ...] = ()) -> None:
        super().__init__(*pids, options=options)
        self.file = file
        self._command.remove("--json")
        self._command += ["-o", str(file), "-i", "0.5"]

    def _keep(self, text: str) -> None:
        assert text == ""

    @property
    def recording(self) -> Recording:
        """What is in the file by now, in whole lines."""
        text, newline, _ = self.file.read_text().rpartition("\n")
        text += newline
        for line in text.splitlines():
            schema.check(json.loads(line))
        return from_text(text, self.file.name)

    def kill(self) -> None:
        """Ends it as a crash would."""
        self._kill()

    def wait_until_kept(self, handshakes: int) -> None:
        """Waits until the file has so many handshakes."""
        wait_for(lambda: self.file.read_text().count("\n") > 1 and shakes(self.recording.total()) >= handshakes, 20)


def shakes(snapshot: Snapshot) -> int:
    """How many handshakes succeeded."""
    assert snapshot.handshakes
    group = total(snapshot.handshakes, Ending.SUCCESS)
    return group.count if group else 0


def calls(snapshot: Snapshot, function: str) -> int:
    return sum(one.count for one in snapshot.series if (one.function, one.outcome) == (function, Outcome.SUCCESS))


@contextmanager
def busy(server: Nginx) -> Iterator[None]:
    """Clients that come one after the other, two at a time."""
    over = threading.Event()

    def connect() -> None:
        client = Client(server.port["ecdsa"], TLS_1_3)
        while not over.is_set():
            client.connect()

    threads = [threading.Thread(target=connect) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


@pytest.mark.smoke
def test_every_handshake_and_call_is_in_an_interval(certificates: Path, tmp_path: Path) -> None:
    with Nginx(certificates) as server, Record(tmp_path / "x.jsonl", server.master_pid) as record:
        for number in range(3):
            Client(server.port["rsa"], TLS_1_3).connect_times(EACH)
            record.wait_until_kept((number + 1) * EACH)
        Client(server.port["rsa"], TLS_1_3).connect_times(EACH)
        server.wait_idle()
    recording = record.recording
    whole = recording.total()
    assert len([interval for interval in recording.intervals if shakes(interval)]) >= 3
    assert shakes(whole) == sum(map(shakes, recording.intervals)) == 4 * EACH
    functions = ("SSL_do_handshake", "rsa_ossl_private_encrypt", "SSL_read", "SSL_write")
    assert [calls(whole, function) for function in functions] == [4 * EACH] * 4
    assert {name: number for name, number in vars(whole.losses).items() if number} == {}
    assert whole.handshakes
    assert (whole.handshakes.dropped, whole.handshakes.in_flight, whole.in_flight) == (0, 0, 0)
    assert not any("cut short" in note for note in whole.notes)
    assert recording.runs[0].command.startswith("ssllatency record -p ")
    starts = [interval.started for interval in recording.intervals]
    assert starts == sorted(starts)


@pytest.mark.parametrize("by", ["trace", "record"])
def test_an_end_amid_calls_loses_none(certificates: Path, tmp_path: Path, by: str) -> None:
    """Probes are removed one kind after the other; what then is seen only in part isn't of the measurement."""
    with Nginx(certificates) as server:
        run = Record(tmp_path / "x.jsonl", server.master_pid) if by == "record" else Trace(server.master_pid)
        with ExitStack() as longer, run:
            longer.enter_context(busy(server))
            wait_for(lambda: server.status().handled > 200)
    whole = run.recording.total() if isinstance(run, Record) else from_document(run.document)
    assert {name: number for name, number in vars(whole.losses).items() if number} == {}
    assert calls(whole, "SSL_do_handshake") >= 150
    if by == "record":
        # Both halves end at the same time, but for what ends within those milliseconds.
        assert shakes(whole) == pytest.approx(calls(whole, "SSL_do_handshake"), abs=20)


def test_a_kill_loses_the_last_interval_at_most(certificates: Path, tmp_path: Path) -> None:
    with Nginx(certificates) as server:
        record = Record(tmp_path / "x.jsonl", server.master_pid)
        record.__enter__()
        for number in range(2):
            Client(server.port["rsa"], TLS_1_3).connect_times(EACH)
            record.wait_until_kept((number + 1) * EACH)
        Client(server.port["rsa"], TLS_1_3).connect_times(EACH)
        record.kill()
        assert 2 * EACH <= shakes(record.recording.total()) <= 3 * EACH
        assert "cut short" in record.recording.total().notes[-1]
        assert len(Client(server.port["rsa"], TLS_1_3).connect_times(2)) == 2
    done = subprocess.run([PROGRAM, "report", record.file], capture_output=True, text=True, check=True, timeout=60)
    assert "cut short" in done.stderr


def test_what_starts_later_is_recorded_too(certificates: Path, tmp_path: Path) -> None:
    """Both halves see a worker that didn't exist yet: they share the set of processes."""
    with Nginx(certificates, Settings(workers=1)) as server, Record(tmp_path / "x.jsonl", server.master_pid) as record:
        Client(server.port["rsa"], TLS_1_3).connect_times(EACH)
        old = server.worker_pids()
        os.kill(server.master_pid, signal.SIGHUP)
        wait_for(lambda: len(server.worker_pids()) == 1 and server.worker_pids() != old)
        Client(server.port["rsa"], TLS_1_3).connect_times(EACH)
        server.wait_idle()
    whole = record.recording.total()
    assert (shakes(whole), calls(whole, "SSL_do_handshake")) == (2 * EACH, 2 * EACH)


@pytest.mark.parametrize("way", [("--links", "shared"), ("--links", "process")], ids=" ".join)
def test_a_library_that_is_loaded_late_is_recorded(certificates: Path, tmp_path: Path, way: tuple[str, str]) -> None:
    """By both halves, however they are attached: the probes are there before the process maps it."""
    with late(certificates) as server, Record(tmp_path / "x.jsonl", server.process.pid, options=("--wait", *way)) as record:
        server.do("load")
        time.sleep(3 * LOOK_S)  # where each process has links of its own, they come at the next look
        server.do("serve 5", 5)
    whole = record.recording.total()
    assert (shakes(whole), calls(whole, "SSL_do_handshake")) == (5, 5)


def library(server: Nginx) -> tuple[str, str]:
    return "--library", libssl_of(server.master_pid)


def test_everyone_who_maps_a_library(certificates: Path, tmp_path: Path) -> None:
    """Nobody is followed then, as none can come later."""
    with Nginx(certificates) as server, Record(tmp_path / "x.jsonl", options=library(server)) as record:
        Client(server.port["rsa"], TLS_1_3).connect_times(EACH)
        server.wait_idle()
    whole = record.recording.total()
    assert (shakes(whole), calls(whole, "SSL_do_handshake")) == (EACH, EACH)


def test_another_key_is_named_as_what_made_the_difference(certificates: Path, tmp_path: Path) -> None:
    files = [str(tmp_path / f"{kind}.jsonl") for kind in ("rsa", "rsa4096")]
    with Nginx(certificates, Settings(kinds=("rsa", "rsa4096"))) as server:
        for file, kind in zip(files, ("rsa", "rsa4096"), strict=True):
            with Record(Path(file), server.master_pid) as record:
                for number in range(4):
                    Client(server.port[kind], TLS_1_3).connect_times(EACH)
                    record.wait_until_kept((number + 1) * EACH)
    command = [PROGRAM, "diff", *files, "--json", "--fail-over", "10%"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 3, done.stderr
    found = json.loads(done.stdout)
    assert found["largest_contribution"] == "private_key"
    assert found["handshake"]["verdict"] == "slower"
    assert "rsa_ossl_private_encrypt, success: mean +" in done.stderr
    # The other way round no part of that is worse; whether something else was is the machine's affair.
    command = [PROGRAM, "diff", *reversed(files), "--json", "--fail-over", "10%"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert json.loads(done.stdout)["handshake"]["verdict"] == "faster"
    assert "rsa_ossl_private_encrypt" not in done.stderr
    assert "private key" not in done.stderr
