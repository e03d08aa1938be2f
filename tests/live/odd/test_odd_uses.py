# SPDX-License-Identifier: Apache-2.0
"""Programs that use wolfSSL, Mbed TLS and GnuTLS in odd ways: what is told of them is what they say themselves."""

from __future__ import annotations

import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import programs
from tests.live.commands.handshakes import Shakes
from tests.live.commands.trace import Trace, losses
from tests.live.servers.nginx import Certificate, make_certificate

pytestmark = pytest.mark.usefixtures("tracing")
SOURCE = Path(__file__).with_name("odd.c")
TIMEOUT_S = 120.0  # for all that a program does
_NUMBERS = 6  # that it says
WAYS = ("cleared", "torn", "jumped", "again", "nested", "threads")


@dataclass(frozen=True)
class Library:
    """What the program is linked with, a header that it needs, and the functions that make handshakes."""

    linked: tuple[str, ...]
    header: str
    functions: tuple[str, ...]


LIBRARIES = {
    "wolfssl": Library(("-lwolfssl",), "wolfssl/ssl.h", ("wolfSSL_accept", "wolfSSL_connect")),
    "mbedtls": Library(("-lmbedtls", "-lmbedx509", "-lmbedcrypto"), "mbedtls/ssl.h", ("mbedtls_ssl_handshake",)),
    "gnutls": Library(("-l:libgnutls.so.30",), "", ("gnutls_handshake",)),
}


@dataclass(frozen=True)
class Odd:
    """One of the programs; what it says is there once `go()` was called."""

    process: subprocess.Popen[str]

    def go(self) -> list[int]:
        """Has it make its handshakes: how many of clients have succeeded and were given up, how many of servers, how many calls
        have succeeded and were to be made again."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        told = [int(word) for word in self.process.stdout.readline().split()]
        assert len(told) == _NUMBERS
        return told


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """Of the servers."""
    return make_certificate("ecdsa", tmp_path_factory.mktemp("certificates"))


def build(name: str, folder: Path) -> Path:
    """The program with this library; a skip where that isn't here."""
    library, program = LIBRARIES[name], folder / "odd"
    if library.header and not Path("/usr/include", library.header).exists():
        pytest.skip(f"{library.header} isn't here: run tools/setup")
    flags = ("-O2", "-Wall", "-Wextra", "-Werror", "-pthread", f"-DLIBRARY_{name.upper()}")
    subprocess.run([programs.path("cc"), *flags, "-o", program, SOURCE, *library.linked], check=True)
    return program


@contextmanager
def started(program: Path, way: str, pair: Certificate) -> Iterator[Odd]:
    """One that waits to be told to go, until the end of the block."""
    command = [program, way, pair.certificate, pair.key]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        hangs = threading.Timer(TIMEOUT_S, process.kill)
        hangs.start()
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            yield Odd(process)
        finally:
            hangs.cancel()
            process.kill()


def ended(shakes: Shakes, pid: int) -> list[int]:
    """The same of what was seen of one of them."""
    singles = [single for single in shakes.singles if single["pid"] == pid]
    found = Counter((single["labels"]["role"], single["ending"]) for single in singles)
    assert found.keys() <= {(role, ending) for role in ("client", "server") for ending in ("success", "abandoned")}
    return [found[role, ending] for role in ("client", "server") for ending in ("success", "abandoned")]


def called(trace: Trace, pid: int, functions: tuple[str, ...]) -> dict[str, int]:
    """How often calls of these functions ended how in one of them."""
    rows = [row for row in trace.document["functions"] if row["pid"] == pid and row["function"] in functions]
    found: Counter[str] = Counter()
    for row in rows:
        found[row["outcome"]] += row["count"]
    return dict(found)


@pytest.mark.parametrize("name", LIBRARIES)
def test_odd_uses_are_counted_as_they_are(name: str, pair: Certificate, tmp_path: Path) -> None:
    """Connections that are cleared or lie where others lay, calls that don't come back or do nothing, calls within calls."""
    program, functions = build(name, tmp_path), LIBRARIES[name].functions
    ways = [way for way in WAYS if (name, way) != ("gnutls", "again")]  # which renews keys, and is told as another handshake
    with ExitStack() as stack:
        odd = {way: stack.enter_context(started(program, way, pair)) for way in ways}
        pids = [one.process.pid for one in odd.values()]
        with (
            Trace(*pids, options=("--role", "any", "--by-process")) as trace,
            Shakes(*pids, options=("--role", "any")) as shakes,
        ):
            told = {way: one.go() for way, one in odd.items()}
        seen = {way: ended(shakes, one.process.pid) for way, one in odd.items()}
        calls = {way: called(trace, one.process.pid, functions) for way, one in odd.items()}
    assert seen == {way: numbers[:4] for way, numbers in told.items()}
    assert calls == {way: {"success": numbers[4], "retry": numbers[5]} for way, numbers in told.items()}
    assert losses(trace.document).keys() <= {"unmatched_entries"}  # of calls that never came back
    assert shakes.document["in_flight"] == 0
    assert shakes.document["handshakes"]["partial"] == 0
