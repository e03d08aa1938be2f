# SPDX-License-Identifier: Apache-2.0
"""`ssllatency` alone, on a terminal of its own."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.clients.counted import TLS_1_3, Client
from tests.live.commands.trace import PROGRAM, links_left, links_of
from tests.live.servers.nginx import Nginx

pytestmark = pytest.mark.usefixtures("tracing")


def on_a_terminal(program: Path, at: bytes = b"", seen: set[int] | None = None) -> str:
    """What the program writes there until it ends. Once it has written `at`, its links are `seen` and Ctrl-C is typed."""
    ours, its = pty.openpty()
    settings = os.environ | {"COLUMNS": "200", "NO_COLOR": "1"}
    with subprocess.Popen([program], stdin=its, stdout=its, stderr=its, env=settings) as process:
        os.close(its)
        written = b""
        try:
            while piece := os.read(ours, 1 << 16):
                written += piece
                if seen is not None and not seen and at in written:
                    seen |= links_of(process.pid)
                    process.send_signal(signal.SIGINT)
        except OSError:  # the other end is closed
            pass
        os.close(ours)
    assert process.returncode == 0
    return written.decode().replace("\r\n", "\n")


@contextmanager
def mapping() -> Iterator[None]:
    """A process that maps the library, and is no server."""
    command = [sys.executable, "-c", "import ssl, sys; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        yield


def test_it_names_the_busiest_server_and_the_line_to_type_next(certificates: Path) -> None:
    over = threading.Event()

    def connect() -> None:
        client = Client(server.port["ecdsa"], TLS_1_3)
        while not over.is_set():
            client.connect()

    with Nginx(certificates) as idle, Nginx(certificates) as server, mapping():
        thread = threading.Thread(target=connect)
        thread.start()
        try:
            printed = on_a_terminal(PROGRAM)
            command = [PROGRAM, "targets", "-p", str(server.master_pid), "-d", "1s", "--json"]
            listed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout
        finally:
            over.set()
            thread.join()
    [rate] = re.findall(rf"^{server.master_pid} \+1 +nginx +(\d+) +0 %$", printed, re.MULTILINE)
    assert int(rate) > 0
    assert re.search(rf"^{idle.master_pid} \+1 +nginx +0 +-$", printed, re.MULTILINE)
    told = rf"Certificate of \S+ \(port {server.port['ecdsa']}\): expires in \d+ .*, ECDSA P-256, issued by"
    assert re.search(told, " ".join(printed.split()))
    assert f"  {PROGRAM} handshakes -p {server.master_pid} -d 10s" in printed
    assert re.search(r"The probes cost \d+ other process", printed)
    assert "--links" not in printed
    seen = json.loads(listed)["seen"]
    assert seen["processes"][0]["handshakes_per_second"] > 0
    assert [one["port"] for one in seen["certificates"]] == [server.port["ecdsa"]]


def test_ctrl_c_ends_it_and_leaves_no_probe(certificates: Path) -> None:
    with Nginx(certificates) as server:
        links: set[int] = set()
        printed = on_a_terminal(PROGRAM, at=b" of 2 s", seen=links)  # the progress, which begins once the probes are there
        assert links
        assert links_left(links) == set()
    assert re.search(rf"^{server.master_pid} \+1 +nginx +0 +-$", printed, re.MULTILINE)
    assert printed.count(" of 2 s") < 10
