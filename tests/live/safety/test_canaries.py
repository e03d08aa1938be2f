# SPDX-License-Identifier: Apache-2.0
"""ssllatency never reads plaintext, keys or secrets: of a server all of whose secrets are known, none is in any map, ring
buffer, report, recording, message or the memory of the commands that traced it."""

from __future__ import annotations

import base64
import os
import re
import secrets
import shutil
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy
import pytest

from tests import programs
from tests.live.commands.export import Export, status
from tests.live.commands.trace import PROGRAM, STOP_TIMEOUT_S
from tests.live.servers.nginx import Nginx

pytestmark = pytest.mark.usefixtures("tracing")
SERVER = Path(__file__).parents[1] / "servers" / "python" / "canary_program.py"
COMM = b"canary-server"  # which the commands do know
CONNECTIONS = 5
WINDOW = 8  # so many bytes in a row of a secret, from a multiple of so many, are a find
_HALVES = WINDOW // 2  # of 16 bits
_ZEROS = bytes(64)
LABELS = "version,cipher,resumed,group,signature,client_certificate,role,process"
REQUEST = ("req", "-x509", "-newkey", "rsa:2048", "-days", "2", "-subj", "/CN=localhost")
HANDSHAKES = ("--by", LABELS, "--slowest", "5", "--off-cpu", "--max-in-flight", "1024")


@dataclass
class Secrets:
    """What nobody but the server and its client may know, by name."""

    known: dict[str, bytes] = field(default_factory=dict)

    def add(self, name: str, secret: bytes) -> None:
        assert len(secret) >= 2 * WINDOW, name
        self.known[name] = secret

    def found_in(self, memory: bytes) -> set[str]:
        """The names of those of which a part is in these bytes."""
        filled = memory.replace(_ZEROS, b"")  # most of the kernel's maps: no secret has so many
        words = {window: name for name, secret in self.known.items() for window in _windows(secret)}
        return {words[window] for window in _those_within(filled, words)}

    def found_in_text(self, text: bytes) -> set[str]:
        """The same of what a command wrote, in hexadecimal or base64 too."""
        found = self.found_in(text)
        small = text.lower()
        for name, secret in self.known.items():
            written = [secret.hex()[i : i + 16].encode() for i in range(0, 2 * len(secret) - 15, 16)]
            encoded = base64.b64encode(secret)
            if any(part in small for part in written) or encoded[:16] in text:
                found.add(name)
        return found


def _windows(secret: bytes) -> Iterator[bytes]:
    """As it is written, and as the limbs of OpenSSL's big numbers lie in memory."""
    for order in (secret, secret[::-1]):
        yield from (order[start : start + WINDOW] for start in range(0, len(order) - WINDOW + 1, WINDOW))


def _those_within(memory: bytes, windows: Iterable[bytes]) -> Iterator[bytes]:
    """Those of the windows that are anywhere in these bytes. A table of how they begin comes first: they are a thousand."""
    wanted = numpy.frombuffer(b"".join(windows), numpy.uint64)
    begins = numpy.zeros(1 << 16, bool)
    begins[wanted.view(numpy.uint16)[::_HALVES]] = True
    for start in range(min(WINDOW, len(memory) - WINDOW + 1)):
        here = numpy.frombuffer(memory, numpy.uint64, (len(memory) - start) // WINDOW, start)
        perhaps = here[begins[here.view(numpy.uint16)[::_HALVES]]]
        yield from (word.tobytes() for word in numpy.intersect1d(perhaps, wanted))


def openssl(*words: str, **more: str) -> str:
    return subprocess.run(["openssl", *words], capture_output=True, text=True, check=True, timeout=60, **more).stdout


def number_in(text: str, name: str) -> bytes:
    """A number as `openssl … -text` writes it."""
    found = re.search(rf"^{name}:\n((?: +[0-9a-f:]+\n)+)", text, re.MULTILINE)
    assert found, name
    return bytes.fromhex(re.sub(r"[\s:]", "", found[1])).lstrip(b"\0")


@contextmanager
def server(folder: Path, canaries: Secrets) -> Iterator[tuple[int, int]]:
    """The process and its port; what it has is among the canaries."""
    password, answer = secrets.token_hex(16), secrets.token_urlsafe(48)
    certificate, key = folder / "server.crt", folder / "server.key"
    openssl(*REQUEST, "-passout", f"pass:{password}", "-keyout", str(key), "-out", str(certificate))
    text = openssl("rsa", "-in", str(key), "-passin", f"pass:{password}", "-text", "-noout")
    for name in ("privateExponent", "prime1", "prime2"):
        canaries.add(f"the private key's {name}", number_in(text, name))
    canaries.add("the password", password.encode())
    canaries.add("the answer", answer.encode())
    command = [sys.executable, SERVER, certificate, key, folder / "keylog"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdin
            assert process.stdout
            process.stdin.write(f"{password}\n{answer}\n")
            process.stdin.flush()
            yield process.pid, int(process.stdout.readline())
        finally:
            process.kill()


def connect(port: int, folder: Path, canaries: Secrets) -> None:
    """Handshakes of every kind, whole and failed, new and resumed; what was secret in them is among the canaries."""
    question = secrets.token_urlsafe(48)
    canaries.add("the question", question.encode())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context.minimum_version = context.maximum_version = version
        session = None
        for _ in range(CONNECTIONS):
            with (
                socket.create_connection(("127.0.0.1", port)) as plain,
                context.wrap_socket(plain, session=session) as tls,
            ):
                tls.sendall(question.encode())
                while tls.recv(4096):
                    pass
                session = tls.session
    with socket.create_connection(("127.0.0.1", port)) as plain:
        plain.sendall(b"this isn't TLS\r\n\r\n")
        with suppress(OSError):
            plain.recv(100)
    for version in ("tls1_2", "tls1_3"):
        kept = folder / f"session-{version}"
        openssl(
            "s_client",
            "-ign_eof",
            "-connect",
            f"127.0.0.1:{port}",
            f"-{version}",
            "-sess_out",
            str(kept),
            input=f"{question}\n",
        )
        text = openssl("sess_id", "-in", str(kept), "-noout", "-text")
        ticket = re.search(r"TLS session ticket:\n((?: +[0-9a-f]{4} - .*\n)+)", text)
        assert ticket
        lines = re.findall(r"- ((?:[0-9a-f]{2}[ -]){16})", ticket[1])
        canaries.add(f"a ticket of {version}", bytes.fromhex(re.sub(r"[ -]", "", "".join(lines)))[16:])
        master = re.search(r"(?:Master-Key|Resumption PSK): ([0-9A-F]+)", text)
        assert master
        canaries.add(f"a session's key of {version}", bytes.fromhex(master[1]))
    for number, line in enumerate((folder / "keylog").read_text().splitlines()):
        if line and not line.startswith("#"):
            canaries.add(f"{line.split()[0]} {number}", bytes.fromhex(line.split()[2]))


def maps_of(pid: int) -> Iterator[bytes]:
    """What is in each BPF map that a process holds, keys and values; of those that can be listed."""
    ids = set()
    for info in Path(f"/proc/{pid}/fdinfo").iterdir():
        with suppress(OSError):
            ids |= set(re.findall(r"^map_id:\t(\d+)", info.read_text(), re.MULTILINE))
    assert ids
    for number in ids:
        done = subprocess.run(["bpftool", "-j", "map", "dump", "id", number], capture_output=True, check=False, timeout=120)
        yield bytes.fromhex(b"".join(re.findall(rb'"0x([0-9a-f]{2})"', done.stdout)).decode())


def memory_of(pid: int) -> Iterator[tuple[str, bytes]]:
    """A process's writable memory and its mappings of BPF maps, ring buffers among them, with what each is."""
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            place, rights, *_ = line.split(maxsplit=5)
            name = line.split(maxsplit=5)[5] if line.count(" ") > 4 and len(line.split(maxsplit=5)) > 5 else ""
            if "w" not in rights and "bpf" not in name:
                continue
            start, end = (int(part, 16) for part in place.split("-"))
            with suppress(OSError):
                yield name, os.pread(memory.fileno(), end - start, start)


class Command:
    """A subcommand that runs, its output and its messages in files."""

    def __init__(self, folder: Path, pid: int, name: str, *options: str) -> None:
        self.name, self.said, self.printed = name, folder / f"{name}.err", folder / f"{name}.out"
        with self.said.open("wb") as said, self.printed.open("wb") as printed:
            self.process = subprocess.Popen([PROGRAM, name, "-p", str(pid), *options], stdout=printed, stderr=said)

    def wait_attached(self) -> None:
        from tests.waiting import wait_for

        wait_for(lambda: b"Tracing" in self.said.read_bytes() or self.process.poll() is not None)
        assert self.process.poll() is None, self.said.read_text()

    def end(self) -> None:
        self.process.terminate()
        assert self.process.wait(STOP_TIMEOUT_S) == 0


def test_no_secret_of_a_server_is_kept_anywhere(tmp_path: Path) -> None:
    programs.needed("openssl", "bpftool")
    canaries = Secrets()
    outputs = tmp_path / "outputs"
    outputs.mkdir()
    with ExitStack() as stack:
        pid, port = stack.enter_context(server(tmp_path, canaries))
        recording = outputs / "recording"
        commands = [
            Command(outputs, pid, "trace", "--json", "--by-process"),
            Command(outputs, pid, "handshakes", "--json", *HANDSHAKES, "--over", "1us"),
            Command(outputs, pid, "snoop", "--json"),
            Command(outputs, pid, "record", "-o", str(recording), "-i", "1", "--by-process", *HANDSHAKES),
        ]
        for command in commands:
            stack.callback(command.process.wait)
            stack.callback(command.process.kill)
            command.wait_attached()
        connect(port, tmp_path, canaries)
        assert len(canaries.known) > 20
        for command in commands:
            assert_none_in_memory(command, canaries)
        for command in commands:
            command.end()
    files = [*outputs.iterdir()]
    assert all(file.stat().st_size for file in (recording, *(command.printed for command in commands[:3])))
    for file in files:
        assert canaries.found_in_text(file.read_bytes()) == set(), file.name
    assert b"SSL_do_handshake" in commands[0].printed.read_bytes()
    shutil.rmtree(outputs)


def assert_none_in_memory(command: Command, canaries: Secrets) -> None:
    maps = list(maps_of(command.process.pid))
    memory = list(memory_of(command.process.pid))
    for where in (*maps, *(piece for _, piece in memory)):
        assert canaries.found_in(where) == set(), command.name
    # What they do know is found the same way, so a secret would be.
    assert any(any(one) for one in maps), command.name
    assert any("bpf" in name and piece for name, piece in memory), command.name
    assert _knows(maps, memory), command.name


def _knows(maps: Iterable[bytes], memory: Iterable[tuple[str, bytes]]) -> bool:
    return any(COMM in one for one in maps) or any(COMM in piece for _, piece in memory)


class TlsExport(Export):
    """The same over TLS."""

    def _is_ready(self) -> bool:
        unverified = ssl._create_unverified_context()
        with suppress(urllib.error.HTTPError), urllib.request.urlopen(self.url, timeout=20, context=unverified):
            return True
        return False

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}/-/ready"


def test_the_key_of_the_exports_own_server_is_known_to_its_speaker_alone(certificates: Path, tmp_path: Path) -> None:
    """Who traces can't lose it: it never had it. Who speaks, needs it, and can't read its file again."""
    if os.geteuid():
        pytest.skip("only root has privileges to give up: run the tests as root")
    canaries, certificate, key = Secrets(), tmp_path / "own.crt", tmp_path / "own.key"
    openssl(*REQUEST, "-noenc", "-keyout", str(key), "-out", str(certificate))
    key.chmod(0o600)
    exponent = number_in(openssl("rsa", "-in", str(key), "-text", "-noout"), "privateExponent")
    canaries.add("the exponent", exponent[WINDOW : 5 * WINDOW])  # to look for all of it takes long
    canaries.add("the file", key.read_bytes().splitlines()[5])
    (tmp_path / "web.yml").write_text(f"tls_server_config: {{cert_file: {certificate}, key_file: {key}}}\n")
    with (
        Nginx(certificates) as served,
        TlsExport(served.master_pid, options=("--web-config", str(tmp_path / "web.yml"))) as own,
    ):
        of_tracer, of_speaker = (list(memory_of(pid)) for pid in (own.tracer, own.speaker))
        uids = {int(word) for word in status(own.speaker)["Uid"].split()}
    assert set().union(*(canaries.found_in(piece) for _, piece in of_tracer)) == set()
    assert "the exponent" in set().union(*(canaries.found_in(piece) for _, piece in of_speaker))
    assert key.stat().st_uid not in uids


def test_a_secret_would_be_found() -> None:
    canaries, secret = Secrets(), secrets.token_bytes(32)
    canaries.add("one", secret)
    for kept in (secret, secret[::-1], b"x" * 5 + secret[9:27], bytes(100) + secret[:WINDOW]):
        assert canaries.found_in(kept) == {"one"}
    for written in (secret.hex().encode(), secret.hex().upper().encode(), base64.b64encode(secret)):
        assert canaries.found_in_text(b"{" + written + b"}") == {"one"}
    assert canaries.found_in(secrets.token_bytes(4096)) == set()
