# SPDX-License-Identifier: Apache-2.0
"""The image as a container that sees the host's processes and has named capabilities: it traces a server outside of it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ssllatency import __version__
from tests import bills
from tests.live.clients.counted import TLS_1_3, Client
from tests.live.commands.handshakes import Shakes, assert_books, endings
from tests.live.commands.trace import Trace, count, losses
from tests.live.conftest import certificates
from tests.live.servers.nginx import Nginx
from tests.packages.containers import NAME, podman
from tests.packages.roots import PACKAGES, SCREEN, SCREENS, assert_top_opens

__all__ = ["certificates"]

TIMES = 20
RIGHTS = "--cap-add=BPF,PERFMON,SYS_PTRACE"


@pytest.fixture(scope="module")
def container() -> Iterator[tuple[str, ...]]:
    """The command that runs the image; what follows are options of podman's, the image and its words."""
    # Podman's own profile, at least up to Debian 12's, keeps bpf and perf_event_open for CAP_SYS_ADMIN.
    rights = ("--cap-drop=all", "--security-opt=no-new-privileges", "--security-opt=seccomp=unconfined")
    with podman() as command:
        yield (*command, "run", "--rm", "--pid=host", "--network=host", "--read-only", "--tmpfs=/tmp", *rights)


class ImagesTrace(Trace):
    """A trace by the image."""

    def __init__(self, run: tuple[str, ...], *pids: int) -> None:
        super().__init__(*pids)
        self._command = [*run, "--sig-proxy=true", RIGHTS, NAME, *self._command[1:]]


class ImagesShakes(Shakes):
    """`handshakes` by the image."""

    def __init__(self, run: tuple[str, ...], *pids: int) -> None:
        super().__init__(*pids)
        self._command = [*run, "--sig-proxy=true", RIGHTS, NAME, *self._command[1:]]


def test_it_runs(container: tuple[str, ...]) -> None:
    done = subprocess.run([*container, NAME, "--version"], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"ssllatency {__version__}\n", "")


def test_the_doctor_finds_what_tracing_needs(container: tuple[str, ...]) -> None:
    done = subprocess.run([*container, RIGHTS, NAME, "doctor"], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr


def test_its_bill_of_materials_lists_what_is_in_it(container: tuple[str, ...]) -> None:
    """The file is also beside the image; what is in the image is what its own dpkg says."""
    file = "/usr/share/doc/ssllatency/ssllatency-image.spdx.json"
    text = said_in(container, "cat", file)
    assert text == (PACKAGES / Path(file).name).read_text()
    document = json.loads(text)
    assert bills.faults(document) == []
    installed = dict(
        line.split() for line in said_in(container, "dpkg-query", "-W", "-f", "${Package} ${Version}\n").splitlines()
    )
    listed = {package["name"]: package["versionInfo"] for package in document["packages"]}
    assert {name: listed.get(name) for name in installed} == installed
    assert listed.keys() - installed.keys() == {"ssllatency-image", *bills.FOLDERS}


def test_the_screen_of_top_comes_along(container: tuple[str, ...]) -> None:
    assert said_in(container, "python3", "-I", "-B", "-c", SCREEN) == SCREENS


def test_top_opens_in_a_terminal(container: tuple[str, ...], certificates: Path) -> None:
    with Nginx(certificates) as server:
        assert_top_opens(*container, "-it", RIGHTS, NAME, "top", "-p", str(server.master_pid))


def said_in(container: tuple[str, ...], program: str, *words: str) -> str:
    """What a program of the image prints."""
    command = [*container, f"--entrypoint=/usr/bin/{program}", NAME, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_it_traces_a_server_outside_of_it(container: tuple[str, ...], certificates: Path) -> None:
    with Nginx(certificates) as server, ImagesTrace(container, server.master_pid) as trace:
        Client(server.port["rsa"], TLS_1_3).connect_times(TIMES)
        server.wait_idle()
    assert [count(trace.document, name) for name in ("SSL_do_handshake", "rsa_ossl_private_encrypt")] == [TIMES, TIMES]
    assert losses(trace.document) == {}


def test_it_follows_handshakes_of_a_server_outside_of_it(container: tuple[str, ...], certificates: Path) -> None:
    with Nginx(certificates) as server, ImagesShakes(container, server.master_pid) as shakes:
        Client(server.port["rsa"], TLS_1_3).connect_times(TIMES)
        server.wait_idle()
    assert endings(shakes.document) == {"success": TIMES}
    assert_books(shakes)
