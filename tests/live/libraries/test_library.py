# SPDX-License-Identifier: Apache-2.0
"""One library named by its file: what belongs to it is traced with it, in the processes that map it, and in no others."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tests.live.clients.bad import no_shared_cipher
from tests.live.clients.counted import TLS_1_3, Client, Exchange, server_calls
from tests.live.commands.handshakes import Shakes, assert_books, endings, labels_of
from tests.live.commands.trace import PROGRAM, Document, Trace, counts, losses
from tests.live.libraries.test_boringssl import program, serving  # noqa: F401 - a fixture
from tests.live.servers.nginx import Nginx, libssl_of, make_certificate

pytestmark = pytest.mark.usefixtures("tracing")

TIMES = 15
KEYS = 7
# Makes KEYS keys by libcrypto, of which libssl is no part, at each line that it reads.
KEY_MAKER = f"""
import ctypes, sys

crypto = ctypes.CDLL("libcrypto.so.3")
crypto.EVP_PKEY_CTX_new_id.restype = ctypes.c_void_p
for _ in sys.stdin:
    for _ in range({KEYS}):
        key = ctypes.c_void_p()
        context = ctypes.c_void_p(crypto.EVP_PKEY_CTX_new_id(1034, None))  # EVP_PKEY_X25519
        assert crypto.EVP_PKEY_keygen_init(context) == 1
        assert crypto.EVP_PKEY_keygen(context, ctypes.byref(key)) == 1
    print("made", flush=True)
"""


@contextmanager
def key_maker() -> Iterator[subprocess.Popen[str]]:
    """A process that uses libcrypto and doesn't map libssl."""
    command = [sys.executable, "-I", "-c", KEY_MAKER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            make_keys(process)
            assert "libssl" not in Path(f"/proc/{process.pid}/maps").read_text()
            yield process
        finally:
            process.kill()


def make_keys(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    assert process.stdout
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "made\n"


def assert_counted(document: Document, exchanges: list[Exchange], workers: list[int], other: int) -> None:
    """The workers' calls are counted, of both libraries, and the client's, which maps libssl as well; not those of `other`."""
    counted = {row["pid"] for row in document["functions"] if row["count"]}
    assert {*workers, os.getpid()} <= counted
    assert other not in counted
    mine = [row for row in document["functions"] if row["pid"] in workers]
    expected = server_calls(exchanges, "ecdsa")
    assert counts({**document, "functions": mine}, list(expected)) == expected, f"lost: {losses(document)}"
    assert losses(document) == {}


@pytest.mark.parametrize("engine", ["libbpf", "bcc"])
def test_libcrypto_comes_along_in_the_processes_of_libssl(certificates: Path, engine: str) -> None:
    with (
        Nginx(certificates) as nginx,
        key_maker() as other,
        Trace(options=("--library", libssl_of(nginx.master_pid), "--by-process", "--engine", engine)) as trace,
    ):
        make_keys(other)
        exchanges = Client(nginx.port["ecdsa"], TLS_1_3).connect_times(TIMES)
        make_keys(other)
        nginx.wait_idle()
        workers = nginx.worker_pids()
    assert_counted(trace.document, exchanges, workers, other.pid)


def test_a_process_that_starts_later_brings_its_libcrypto(certificates: Path) -> None:
    with (
        Nginx(certificates) as first,
        key_maker() as other,
        Trace(options=("--library", libssl_of(first.master_pid), "--by-process")) as trace,
        Nginx(certificates) as second,
    ):
        make_keys(other)
        exchanges = Client(second.port["ecdsa"], TLS_1_3).connect_times(TIMES)
        second.wait_idle()
        workers = second.worker_pids()
    assert_counted(trace.document, exchanges, workers, other.pid)


def test_handshakes_have_their_reasons_groups_and_phases(certificates: Path) -> None:
    with Nginx(certificates) as nginx, Shakes(options=("--library", libssl_of(nginx.master_pid))) as shakes:
        Client(nginx.port["rsa"], TLS_1_3).connect_times(TIMES)
        no_shared_cipher(nginx.port["rsa"])
        nginx.wait_idle()
    assert endings(shakes.document) == {"success": TIMES, "failure": 1}
    assert {group for (group,) in labels_of(shakes.ended("success"), "group")} == {"x25519"}
    assert all("private_key" in single["parts_ns"] for single in shakes.ended("success"))
    assert [cause["reason"] for cause in shakes.document["handshakes"]["causes"]] == ["no shared cipher"]
    assert_books(shakes)


def strip_bare(program: Path, bare: Path) -> None:  # noqa: F811
    """Leaves neither names of functions in a copy, nor unwind tables, without which they aren't found by what they do."""
    subprocess.run(["strip", "-o", bare, program], check=True)
    content = bytearray(bare.read_bytes())
    with bare.open("rb") as file:
        for section in ELFFile(file).iter_sections():
            if section.name.startswith(".eh_frame"):
                at, size = section["sh_offset"], section["sh_size"]
                content[at : at + size] = bytes(size)
    bare.write_bytes(content)


def test_a_library_that_cannot_be_traced_is_refused(certificates: Path, tmp_path: Path, program: Path) -> None:  # noqa: F811
    """Though its process maps other TLS, which can: it isn't what was asked for."""
    bare, pair = tmp_path / "bare", make_certificate("ecdsa", certificates)
    strip_bare(program, bare)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_PRELOAD", str(next(Path("/usr/lib").glob("*/libssl.so.3"))))
        with serving(bare, pair.certificate, pair.key):
            patch.undo()
            words = [PROGRAM, "trace", "--library", str(bare), "-d", "1"]
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    name = {"boringssl": "BoringSSL", "aws-lc": "AWS-LC"}[program.name]
    assert done.returncode == 1
    assert done.stderr.startswith(f"ssllatency: {bare} can't be traced: {name}")
    assert "shows no names of its functions (stripped)" in done.stderr
