# SPDX-License-Identifier: Apache-2.0
"""`ssllatency top` on a real terminal, of a real nginx: what is seen is what the clients did, keys work, and whichever way it
ends the probes are gone and the terminal is as it was."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ssllatency.model.arithmetic.handshake_sums import total
from ssllatency.model.handshakes import Ending
from ssllatency.reports.documents.recording_reading import from_text
from tests import programs
from tests.live.clients import bad
from tests.live.clients.counted import TLS_1_3, Client
from tests.live.commands.test_command import children
from tests.live.commands.trace import PROGRAM, links_left, links_of
from tests.live.screens.terminal import Terminal
from tests.live.servers.late import late
from tests.live.servers.nginx import Nginx
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("tracing")


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """One whose name leaves room in a line of 80 columns."""
    with TemporaryDirectory(prefix="ssllatency-test-") as name:
        yield Path(name)


def has_a_row(text: str) -> bool:
    """Whether there are numbers of nginx by now."""
    return bool(re.search(r"^nginx +[\d.]+ .* [um]s ", text, re.MULTILINE))


@contextmanager
def busy(server: Nginx) -> Iterator[Callable[[], int]]:
    """A client that comes again and again; the number of its handshakes so far."""
    over, done = threading.Event(), []

    def connect() -> None:
        client = Client(server.port["ecdsa"], TLS_1_3)
        while not over.is_set():
            client.connect()
            done.append(1)
            time.sleep(0.02)  # a load that a machine for tests bears

    thread = threading.Thread(target=connect)
    thread.start()
    try:
        yield lambda: len(done)
    finally:
        over.set()
        thread.join()


def top_process(terminal: Terminal) -> int:
    """The PID of the command: the only child of the terminal's shell."""
    shells = terminal._tmux("list-panes", "-F", "#{pane_pid}").split()
    (pid,) = children(int(shells[0]))
    return pid


def command(server: Nginx, *options: str) -> list[str]:
    return [str(PROGRAM), "top", "-p", str(server.master_pid), *options]


@pytest.mark.smoke
def test_what_is_seen_is_what_clients_did(certificates: Path, short_folder: Path) -> None:
    programs.needed("tmux")
    file = short_folder / "x.jsonl"
    with Nginx(certificates) as server, busy(server), Terminal(command(server, "-o", str(file))) as terminal:
        terminal.wait_for(has_a_row)
        bad.no_shared_cipher(server.port["rsa"])
        text = terminal.wait_for(lambda text: "failed: no shared cipher" in text)
        assert re.search(r"top  \S+  \d\d:\d\d:\d\d, last .* probes .* % of their CPU, top .* % of a core", text)
        assert re.search(r"^ *[\d.]+ [mu]s .*[·░▒▓█]", text, re.MULTILINE)  # the heatmap
        assert re.search(r"^\|[^|]+\|$", text, re.MULTILINE)  # the bar of phases
        assert re.search(r"^\S.* KEY +QUEUE ", text, re.MULTILINE)
        assert re.search(r"handshakes/s, .*, queue [\d.]+ [mu]s", text)
        assert "==> " in text
        assert all(len(line) <= 80 for line in terminal.lines())
        pid = top_process(terminal)
        links = links_of(pid)
        assert links_left(links) == links != set()
        terminal.press("5")
        terminal.wait_for(lambda text: "ssllatency top --functions" in text)
        terminal.press("Tab")
        worker = children(server.master_pid)[0]
        terminal.wait_for(lambda text: f"nginx({worker})" in text)
        terminal.press("r")
        terminal.wait_for(lambda text: " REC " in text)
        wait_for(lambda: file.read_text().count('"interval":') >= 2)
        terminal.press("r")
        terminal.wait_for(lambda text: "x.jsonl holds " in text)
        terminal.press("Enter")
        terminal.wait_for(lambda text: "private key" in text and "Esc back" in text)
        terminal.press("Escape")
        terminal.wait_for(lambda text: "PROCESS" in text)
        terminal.press("s")
        terminal.wait_for(lambda text: "SSL_do_handshake" in text and "ssllatency snoop on nginx" in text)
        (snoop,) = children(pid)
        terminal.press("Escape")
        terminal.wait_for(lambda text: "SERVICE" in text or "PROCESS" in text)
        wait_for(lambda: has_ended(snoop))
        terminal.resize(120, 40)
        terminal.wait_for(lambda text: len(text.splitlines()) == 40 and "p pause" in text)
        terminal.press("q")
        assert terminal.wait_for_end() == 0
        assert links_left(links) == set()
    recording = from_text(file.read_text(), "x")
    counts = [total(interval.handshakes, Ending.SUCCESS) for interval in recording.intervals if interval.handshakes]
    assert sum(group.count for group in counts if group) > 0
    assert not any(interval.series for interval in recording.intervals), "reads and writes had probes"
    assert not recording.runs[0].notes


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "C-c"])
def test_whichever_way_it_ends_nothing_is_left(certificates: Path, how: str) -> None:
    programs.needed("tmux")
    with Nginx(certificates) as server, Terminal(command(server), NO_COLOR="1") as terminal:
        Client(server.port["ecdsa"], TLS_1_3).connect()
        terminal.wait_for(lambda text: "handshakes/s" in text)
        assert not re.search(r"\x1b\[[\d;]*(?:3[0-7]|38|4[0-7]|48)[\d;]*m", "\n".join(terminal.lines(escapes=True)))
        pid = top_process(terminal)
        links = links_of(pid)
        assert links
        if how == "C-c":
            terminal.press(how)
        else:
            os.kill(pid, signal.Signals[how])
        assert terminal.wait_for_end() == 0
        assert links_left(links) == set()
        assert "handshakes/s" not in terminal.text()  # the screen from before is back
        assert "Traceback" not in terminal.text()


def has_ended(pid: int) -> bool:
    """Also where nobody has asked yet how."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def test_killed_it_leaves_no_snoop_behind(certificates: Path) -> None:
    programs.needed("tmux")
    with Nginx(certificates) as server, busy(server), Terminal(command(server)) as terminal:
        terminal.wait_for(has_a_row)
        pid = top_process(terminal)
        links = links_of(pid)
        terminal.press("s")
        terminal.wait_for(lambda text: "SSL_do_handshake" in text)
        (snoop,) = children(pid)
        links |= links_of(snoop)
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: has_ended(snoop))
        wait_for(lambda: not links_left(links))


def test_a_dumb_terminal_gets_lines(certificates: Path) -> None:
    programs.needed("tmux")
    with Nginx(certificates) as server, busy(server), Terminal(command(server, "-d", "2"), TERM="dumb") as terminal:
        assert terminal.wait_for_end() == 0
        text = terminal.text()
        assert "==> " in text
        assert "nginx" in text
        assert "\x1b" not in "\n".join(terminal.lines(escapes=True))


def test_once_is_for_scripts(certificates: Path) -> None:
    with Nginx(certificates) as server, busy(server):
        options = {"capture_output": True, "text": True, "timeout": 60, "stdin": subprocess.DEVNULL}
        once = subprocess.run(command(server, "--once", "-i", "2"), check=True, **options)  # type: ignore[call-overload]
        refused = subprocess.run(command(server), check=False, **options)  # type: ignore[call-overload]
    (row,) = [line.split() for line in once.stdout.splitlines() if line.startswith("nginx ")]
    assert float(row[1]) > 0
    assert re.search(r"^top  \S+ ", once.stdout, re.MULTILINE)
    assert refused.returncode == 2
    assert "--plain" in refused.stderr
    assert "--once" in refused.stderr


def test_a_server_that_forks_for_each_connection_leaves_room(certificates: Path) -> None:
    """A process each, many times as many as there is room for: to the end all are their service's, and nothing is "other"."""
    with late(certificates) as server:
        server.do("load")
        words = [PROGRAM, "top", "--plain", "-i", "0.5", "--max-groups", "48", "-p", str(server.process.pid)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as top:
            assert top.stderr
            assert "Tracing" in top.stderr.readline()
            for _ in range(150):
                server.do("fork 1", 1)
                time.sleep(0.02)
            top.send_signal(signal.SIGINT)
            text, _ = top.communicate(timeout=30)
    assert not re.search(r"^other ", text, re.MULTILINE)
    screens = text.split("\ntop  ")[1:]
    assert len(screens) > 5
    assert sum("handshakes/s" in screen for screen in screens[-5:]) >= 4
