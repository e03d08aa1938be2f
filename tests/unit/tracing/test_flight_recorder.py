# SPDX-License-Identifier: Apache-2.0
"""Recordings of JVMs, made here byte by byte: what is read of them, damaged ones, and what a hostile JVM could do."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest
from tests.fixtures.flight_recording import (
    SHAKE,
    STARTED_NS,
    STRING,
    THROWN,
    TYPES,
    chunk,
    constants,
    number,
    odd_recording,
    recording,
    shake,
    sized,
    text,
)

from ssllatency.errors import SsllatencyError
from ssllatency.model.flight_recorder import FlightRecording, Negotiated, Thrown, read_recording
from ssllatency.model.snapshot import Snapshot, Target
from ssllatency.reports.documents.document import from_json, to_json
from ssllatency.reports.text.flight_recorder import render
from ssllatency.targets import Process
from ssllatency.tracing.jfr import recording as jfr_recording
from ssllatency.tracing.jfr.attach import Jvm, command, open_jvm
from ssllatency.tracing.jfr.helper import _start
from ssllatency.tracing.jfr.recording import HelperField, JvmRecording
from ssllatency.tracing.jfr.summary import settings, summary, times_methods, times_ours


def read(data: bytes, *, timed: bool = True) -> FlightRecording:
    return summary(data, 7, "25.0.3", STARTED_NS, timed=timed)


def test_a_recording_is_read() -> None:
    told = read(recording())
    assert told.negotiated == (Negotiated("TLSv1.3", "TLS_A", 2), Negotiated("TLSv1.2", "TLS_\x1b[31mB", 1))
    assert (told.count, told.peers) == (3, 2)
    assert told.thrown == (Thrown("SSLHandshakeException", "no cipher suites in common", 1),)
    assert told.methods is not None
    assert [(row.step, row.count, row.mean_ns, row.min_ns, row.max_ns) for row in told.methods] == [
        ("key exchange: key derived", 3, 2000, 1000, 4000)
    ]


def test_methods_count_on_and_handshakes_add_up_over_chunks() -> None:
    told = read(recording() + recording())
    assert (told.count, told.cut) == (6, False)
    assert told.methods is not None
    assert [row.count for row in told.methods] == [3]
    assert read(chunk(shake("TLSv1.3"), start_ns=STARTED_NS + 2 * 10**9)).cut


def test_without_timed_methods_nothing_is_said_of_them() -> None:
    told = read(recording(), timed=False)
    assert told.methods is told.thrown is None
    assert "MethodTiming" in settings(timed=True)
    assert "MethodTiming" not in settings(timed=False)
    assert not times_methods("21.0.5")
    assert times_ours("jdk.MethodTiming filter=sun.security.ssl.Alert::createSSLException")


def test_damaged_recordings_are_refused_and_bounded() -> None:
    whole, chance = recording(), random.Random(1)
    for end in range(0, len(whole) - 1, 7):
        if end:
            with pytest.raises(ValueError, match=r"cut short|no recording"):
                read(whole[:end])
    for _ in range(3000):
        damaged = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            told = read(bytes(damaged))
        except ValueError:
            continue
        assert len(told.negotiated) <= 65


def test_texts_come_in_many_encodings_and_losses_add_up() -> None:
    told = read(odd_recording())
    assert told.negotiated == (Negotiated("TLSv1.2", "T\xe9S", 1), Negotiated("T\ufffd", "", 1))
    assert (told.lost_bytes, told.methods) == (4096, ())


def test_constants_that_refer_to_one_another_take_no_time() -> None:
    """Each of 40 fields is the constant itself."""
    node = 20
    types = {**TYPES, node: ("java.lang.Class", [(f"name{place}", node, True) for place in range(40)])}
    types[THROWN] = ("jdk.JavaExceptionThrow", [("message", STRING, False), ("thrownClass", node, True)])
    event = sized(number(THROWN) + text("so it goes") + number(1))
    told = read(chunk(constants({node: {1: number(1) * 40}}), event, types=types))
    assert told.thrown == ()


def test_values_without_bytes_are_refused() -> None:
    """Else a few bytes would be millions of them."""
    none, row = 20, 21
    types = {**TYPES, none: ("none", []), row: ("row", [("ones[]", none, False)])}
    types[SHAKE] = ("jdk.TLSHandshake", [("rows[]", row, False)])
    event = sized(number(SHAKE) + number(1000) + number(60_000) * 1000 + bytes(60_000))
    with pytest.raises(ValueError, match="takes no bytes"):
        read(chunk(event, types=types))


def test_many_kinds_are_folded() -> None:
    told = read(chunk(*(shake("TLSv1.3", f"TLS_{kind}") for kind in range(100))))
    assert told.count == 100
    assert len(told.negotiated) == 65


def test_what_a_helper_says_is_read_as_it_was_and_refused_by_the_field() -> None:
    told = read(recording())
    said = asdict(told)
    assert read_recording(HelperField(said)) == told
    said["negotiated"][1]["count"] = -1
    with pytest.raises(SsllatencyError, match=r"of a JVM can't be read: negotiated\[1\]\.count must be a whole number"):
        read_recording(HelperField(said))


def test_report_and_document_say_it() -> None:
    told = read(recording())
    snapshot = Snapshot("h", "6.1", "jfr", "2030-01-31T12:00:00Z", 2.0, (Target(7, "java", ()),), (), flight_recordings=(told,))
    report = render(snapshot)
    assert "3 handshakes recorded with 2 hosts" in report
    assert "1 SSLHandshakeException: no cipher suites in common" in report
    assert "\x1b" not in report
    assert from_json(to_json(snapshot)) == snapshot


def test_a_helper_that_a_jvms_user_has_stopped_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(jfr_recording, "_ENDS_S", 0.05)
    stopped, ended = (JvmRecording(Process(pid, 1, "java", 1)) for pid in (7, 8))
    with subprocess.Popen(["sleep", "600"]) as helper, subprocess.Popen(["true"]) as other:
        try:
            helper.send_signal(signal.SIGSTOP)
            stopped._helper, ended._helper = helper.pid, other.pid
            os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
            jfr_recording._close([stopped, ended])
            assert not Path(f"/proc/{helper.pid}").exists()
            assert not Path(f"/proc/{other.pid}").exists()
        finally:
            helper.kill()
    said = capsys.readouterr().err
    assert "speaks to the JVM 7 didn't end" in said
    assert "JVM 8" not in said
    stopped.close()  # a second time does nothing


@contextmanager
def jvm(root: Path, pid: int) -> Iterator[Jvm]:
    """A JVM that would have this root."""
    (root / "tmp").mkdir()
    handle, process = os.open(root, os.O_PATH), os.pidfd_open(os.getpid())
    try:
        yield Jvm(pid, 1, os.geteuid(), os.getegid(), handle, process)
    finally:
        os.close(handle)
        os.close(process)


def test_a_link_isnt_followed_to_a_socket_elsewhere(tmp_path: Path) -> None:
    elsewhere, root = tmp_path / "s", tmp_path / "root"
    root.mkdir()
    place = root / "tmp/.java_pid1"

    def listen(*_: object) -> None:
        place.unlink()
        place.touch()

    had = signal.signal(signal.SIGQUIT, listen)  # the JVM is asked to listen
    try:
        with jvm(root, os.getpid()) as target, socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(elsewhere))
            listening.listen()
            place.symlink_to(elsewhere)
            with pytest.raises(SsllatencyError, match="isn't its socket"):
                command(target, "VM.version")
            listening.setblocking(False)
            with pytest.raises(BlockingIOError):
                listening.accept()
    finally:
        signal.signal(signal.SIGQUIT, had)


def test_another_process_that_listens_isnt_spoken_to(tmp_path: Path) -> None:
    with jvm(tmp_path, 1) as target, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "tmp/.java_pid1"))
        listening.listen()
        with pytest.raises(SsllatencyError, match="Another process"):
            command(target, "VM.version")


def test_a_program_that_sigquit_would_end_gets_none() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        with pytest.raises(SsllatencyError, match="no handler for SIGQUIT"):
            open_jvm(process.pid)
        process.kill()


@pytest.mark.parametrize("gone", [False, True], ids=["refused", "command-gone"])
def test_a_recording_that_isnt_known_to_have_begun_is_stopped(tmp_path: Path, *, gone: bool) -> None:
    """It may begin after nobody waits for it any more: where the JVM says nothing of it, and where the command has ended before
    it says anything."""
    lines, (told, telling) = list[str](), os.pipe()

    def answer() -> None:
        connections = list[socket.socket]()
        for _ in range(2):
            connection, _ = listening.accept()  # which ends the thread where nobody comes
            connections.append(connection)
            lines.append(connection.recv(4096).split(b"\0")[2].decode())
            if not gone or len(lines) == 2:
                connection.close()
        connections[0].close()

    if gone:
        os.close(telling)
    with jvm(tmp_path, os.getpid()) as target, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "tmp/.java_pid1"))
        listening.listen()
        listening.settimeout(10)
        answering = threading.Thread(target=answer)
        answering.start()
        with pytest.raises(SsllatencyError, match="didn't answer" if gone else "refused the command"):
            _start(target, "ours", told, "duration=1s")
        answering.join()
    assert lines == ["JFR.start name=ours duration=1s", "JFR.stop name=ours"]
    os.close(told)
    if not gone:
        os.close(telling)


def test_a_signal_ends_the_wait_for_a_jvm() -> None:
    recording, (hearing, saying) = JvmRecording(Process(7, 1, "java", 1)), os.pipe()
    recording._hearing = hearing
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            recording.has_begun(time.monotonic() + 10)
        assert signal.sigtimedwait({signal.SIGINT}, 0)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        recording.close()
        os.close(saying)
