# SPDX-License-Identifier: Apache-2.0
"""The Debian package and the RPM in a Debian that has nothing of ours: each runs, traces a server outside of the root with
exact counts, and leaves nothing when it is removed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ssllatency import __version__
from tests import bills
from tests.live.clients.counted import TLS_1_3, Client
from tests.live.commands.trace import Trace, count, losses
from tests.live.conftest import certificates
from tests.live.servers.nginx import Nginx
from tests.live.servers.roots import in_root
from tests.packages.roots import SCREEN, SCREENS, assert_top_opens, built, debian, files, install, run

__all__ = ["certificates"]

TIMES = 20
NEEDED = {"deb": "python3 (>= ", "rpm": "python(abi) >= "}
CACHE = "XDG_CACHE_HOME=/tmp/cache"  # a user's own, which no package removes


class RootsTrace(Trace):
    """A trace by the program that is installed in a root."""

    def __init__(self, root: Path, *pids: int) -> None:
        super().__init__(*pids)
        self._command = in_root(root, "env", CACHE, "/usr/bin/ssllatency", *self._command[1:])


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def root(request: pytest.FixtureRequest) -> Iterator[Path]:
    with debian(request.param) as made:
        install(made, "python3", "libbpf1", "rpm")
        yield made


@pytest.mark.parametrize("kind", ["deb", "rpm"])
def test_it_traces_and_leaves_nothing(root: Path, kind: str, certificates: Path) -> None:
    package = built(f"*.{kind}")
    before = files(root)
    (root / package.name).write_bytes(package.read_bytes())
    if kind == "deb":
        install(root, f"/{package.name}")
    else:  # there is no Fedora here: what rpm itself does, in a root whose packages it doesn't know
        run(root, "rpm", "--install", "--noplugins", "--nodeps", f"/{package.name}")
    assert run(root, "ssllatency", "--version") == f"ssllatency {__version__}\n"
    assert any((root / "usr/lib/ssllatency/ssllatency/cli").glob("__pycache__/*.pyc"))
    assert run(root, "python3", "-I", "-B", "-c", SCREEN) == SCREENS
    document = bills.of(root)
    assert bills.faults(document) + bills.differences(document, root) == []
    assert any(term.startswith(NEEDED[kind]) for term in bills.terms(document, "DEPENDS_ON"))
    with Nginx(certificates) as server:
        targets = json.loads(run(root, "env", CACHE, "ssllatency", "targets", "-p", str(server.master_pid), "--json"))
        with RootsTrace(root, server.master_pid) as trace:
            Client(server.port["rsa"], TLS_1_3).connect_times(TIMES)
            server.wait_idle()
        assert_top_opens(*in_root(root, "env", CACHE, "ssllatency", "top", "-p", str(server.master_pid)))
    assert "nginx" in json.dumps(targets)
    assert [count(trace.document, name) for name in ("SSL_do_handshake", "rsa_ossl_private_encrypt")] == [TIMES, TIMES]
    assert losses(trace.document) == {}
    run(
        root,
        *(
            ("apt-get", "purge", "-y", "ssllatency")
            if kind == "deb"
            else ("rpm", "--erase", "--noplugins", "--nodeps", "ssllatency")
        ),
    )
    assert files(root) == before
