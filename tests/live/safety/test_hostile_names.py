# SPDX-License-Identifier: Apache-2.0
"""A server whose program, libraries and folder have names that are made to harm: none controls a terminal, begins a line, is
markup, or reaches the command of `watch --run`, whatever shows it."""

from __future__ import annotations

import os
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ssllatency.load.matrix.servers.process import free_ports
from tests import programs
from tests.live.clients.counted import TIMEOUT_S
from tests.live.commands.export import Export
from tests.live.commands.trace import PROGRAM, STOP_TIMEOUT_S
from tests.live.servers.nginx import libssl_of, make_certificate
from tests.live.servers.s_server import s_server
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("tracing")
FOLDER = 'in\n# HELP x\x1b]0;pwn\x07<b>"{$(touch x)}'
NAME = '\x1b[2J`id`"<i>;\n'  # as long as a process's may be, with the newline at its end
CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
SEEN = rb"\x1b[2J`id`"


@contextmanager
def hostile(certificates: Path, folder: Path) -> Iterator[tuple[int, int]]:
    """The server's process, and its port."""
    (openssl,) = programs.needed("openssl")
    place = folder / FOLDER
    place.mkdir()
    program = Path(shutil.copy(openssl, place / NAME))
    with s_server(make_certificate("ecdsa", certificates)) as usual:
        library = Path(libssl_of(usual.pid))
    for file in (library, library.with_name(library.name.replace("libssl", "libcrypto"))):
        shutil.copy(file, place / file.name)
    pair, (port,) = make_certificate("ecdsa", certificates), free_ports(1)
    command = [
        program,
        "s_server",
        "-quiet",
        "-www",
        "-accept",
        f"127.0.0.1:{port}",
        "-cert",
        pair.certificate,
        "-key",
        pair.key,
    ]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(place)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment) as process:
        try:
            wait_for(lambda: f":{port:04X} 00000000" in Path("/proc/net/tcp").read_text())
            yield process.pid, port
        finally:
            process.kill()


def shake(port: int) -> None:
    """A handshake, and an answer to its end."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as plain, context.wrap_socket(plain) as tls:
        tls.sendall(b"GET / HTTP/1.0\r\n\r\n")
        while tls.recv(1 << 16):
            pass


def assert_harmless(text: bytes) -> None:
    assert not CONTROL.search(text)
    assert not [line for line in text.splitlines() if line.startswith(b"# HELP x")]


def run(*words: object) -> bytes:
    """What a command writes."""
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, timeout=STOP_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def recorded(pid: int, port: int, folder: Path) -> Path:
    """A recording, in a file with such a name."""
    made = folder / f"recording{FOLDER}"
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen([PROGRAM, "record", "-p", str(pid), "-d", "600", "--by", "process", "-o", made], stderr=said)
    try:
        wait_for(lambda: b"Tracing" in (folder / "said").read_bytes(), 60)
        shake(port)
    finally:
        process.terminate()
        assert process.wait(STOP_TIMEOUT_S) == 0
    assert_harmless((folder / "said").read_bytes())
    return made


def test_names_of_processes_and_files_are_shown_and_nothing_else(certificates: Path, tmp_path: Path) -> None:
    with hostile(certificates, tmp_path) as (pid, port):
        recording = recorded(pid, port, tmp_path)
        live = [run("targets", "-p", pid), run("probes", "-p", pid), run("trace", "-p", pid, "-d", "0.2", "--by-process")]
        with Export(pid) as export:
            shake(port)
            wait_for(lambda: "ssllatency_handshake_ciphers_total{" in export.metrics(), 20)
            metrics = export.metrics().encode()
    kept = [run("report", recording), run("diff", recording, recording)]
    said = run("report", recording, "--html", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_bytes()
    for text in (*live, *kept, metrics, said):
        assert_harmless(text)
    assert not CONTROL.search(page)  # where a line begins means nothing
    assert all(SEEN in text for text in (live[0], *kept))
    assert b"<b>" not in page
    assert b"<i>" not in page
    assert b"`id`" in page
    assert {line.partition(b"{")[0].partition(b"_")[0] for line in metrics.splitlines() if line[:1] != b"#"} == {b"ssllatency"}


def test_the_command_of_watch_gets_no_name(certificates: Path, tmp_path: Path) -> None:
    options = (
        "--when",
        "handshake count > 0",
        "--after",
        "1s",
        "--by",
        "process,sni",
        "-o",
        tmp_path / "watched",
        "--run",
        "env",
    )
    with hostile(certificates, tmp_path) as (pid, port), (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen([PROGRAM, "watch", "-p", str(pid), *options], stdout=subprocess.DEVNULL, stderr=said)
        try:
            wait_for(lambda: b"Tracing" in (tmp_path / "said").read_bytes(), 60)
            shake(port)
            wait_for(lambda: b"SSLLATENCY_READINGS=" in (tmp_path / "said").read_bytes(), 30)
        finally:
            process.terminate()
            assert process.wait(STOP_TIMEOUT_S) == 0
    text = (tmp_path / "said").read_bytes()
    assert_harmless(text)
    facts = [line for line in text.splitlines() if line.startswith(b"SSLLATENCY_")]
    assert not [line for line in facts if b"id" in line or b"touch" in line]
    assert not (Path.cwd() / "x").exists()
