# SPDX-License-Identifier: Apache-2.0
"""TLS inside libraries of other names, as Python's packages bring it: `targets` and the options that choose processes say the
same of it, and what is traced is counted exactly."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import foreign
from tests.live.clients.bad import unknown_ca
from tests.live.clients.counted import TLS_1_2, TLS_1_3, Client
from tests.live.clients.stamped import Stamping, stamped
from tests.live.commands.handshakes import PHASES, Shake, Shakes, assert_books, endings, for_peer_ns, labels_of
from tests.live.commands.trace import PROGRAM, Trace, count, losses
from tests.live.following.test_targets import targets
from tests.live.servers import embedded
from tests.live.servers.named_certificates import bytes_of
from tests.live.servers.nginx import free_ports, make_certificate
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("tracing")

TIMES = 12
PACKAGES = {"pyopenssl": "OpenSSL", "asking": "OpenSSL", "connecting": "OpenSSL", "grpc": "grpc", "granian": "granian"}
JAVA = {"netty": "NettyServer.java", "conscrypt": "ConscryptServer.java", "conscrypt-2.6": "ConscryptServer.java"}


def listens(port: int) -> bool:
    with socket.socket() as peer:
        return peer.connect_ex(("127.0.0.1", port)) == 0


def program(name: str) -> list[str]:
    """The command that starts the server of that name, without its arguments. "pyopenssl 3.3" is of OpenSSL 3.3."""
    if name == "pyopenssl 3.3":
        return ["env", f"PYTHONPATH={foreign.needed(foreign.python_package('cryptography'))}", *program("pyopenssl")]
    if name in JAVA:
        archives = foreign.needed(foreign.java_archives(name))
        return ["java", "-Xmx128m", "-cp", f"{archives}/*", str(Path(embedded.__file__).parent / "java" / JAVA[name])]
    if importlib.util.find_spec(PACKAGES[name]) is None:
        pytest.skip(f"Python's package {PACKAGES[name]} isn't there: run tools/setup")
    return [sys.executable, embedded.__file__, name]


@contextmanager
def started(name: str, certificates: Path, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The server of that name in `embedded` or in servers/java, and the port on which it will listen."""
    pair, (port,) = make_certificate("ecdsa", certificates), free_ports(1)
    command = [*program(name), str(pair.certificate), str(pair.key), str(port), *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        try:
            yield process, port
        finally:
            process.send_signal(signal.SIGTERM if name == "granian" else signal.SIGKILL)


@contextmanager
def serving(name: str, certificates: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The same, listening."""
    with started(name, certificates) as (process, port):
        wait_for(lambda: listens(port))
        yield process, port


def stack(pid: int, implementation: str) -> dict[str, Any]:
    """What `targets` says of the one TLS stack of that implementation in a process."""
    [found] = [tls for tls in targets("-p", pid)[pid]["tls"] if tls["implementation"] == implementation]
    return found


@pytest.mark.parametrize("name", ["pyopenssl", "pyopenssl 3.3"])
@pytest.mark.parametrize("option", ["--pid", "--comm", "--library"])
def test_openssl_in_another_library_is_counted(certificates: Path, option: str, name: str) -> None:
    with serving(name, certificates) as (server, port):
        found = stack(server.pid, "OpenSSL")
        [inside] = [file["path"] for file in found["files"] if set(file["libraries"]) == {"libssl", "libcrypto"}]
        comm = Path(f"/proc/{server.pid}/comm").read_text().rstrip()
        words = (option, {"--pid": str(server.pid), "--comm": comm, "--library": inside}[option])
        with Trace(options=words) as trace, Shakes(options=words) as shakes:
            for version in (TLS_1_2, TLS_1_3):
                Client(port, version).connect_times(TIMES)
            unknown_ca(port)
    assert found["traced"]
    assert count(trace.document, "SSL_do_handshake") == 2 * TIMES
    assert losses(trace.document) == {}
    assert endings(shakes.document) == {"success": 2 * TIMES, "failure": 1}
    assert all("private_key" in single["parts_ns"] for single in shakes.ended("success"))
    [cause] = shakes.document["handshakes"]["causes"]
    assert cause["reason"] == "tlsv1 alert unknown ca"
    assert count(trace.document, "SSL_do_handshake", "failure") == 1
    assert_books(shakes)


@pytest.fixture(params=["4.0", "3.3"])
def stripped_package(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Python takes a copy of cryptography whose OpenSSL has no symbols: that of the newest release that Python has, or an older
    one. Its folder."""
    if request.param == "3.3":
        origin = foreign.needed(foreign.python_package("cryptography")) / "cryptography"
    else:
        spec = importlib.util.find_spec("cryptography")
        if spec is None or spec.origin is None:
            pytest.skip("Python's package cryptography isn't there: run tools/setup")
        origin = Path(spec.origin).parent
    copy = Path(shutil.copytree(origin, tmp_path / "cryptography"))
    for library in copy.rglob("_rust*.so"):
        subprocess.run(["strip", library], check=True)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", ""))))
    return copy


def test_a_stripped_openssl_in_another_library_is_counted(certificates: Path, stripped_package: Path) -> None:
    """Its functions are found by the names in the errors that they raise."""
    with serving("pyopenssl", certificates) as (server, port):
        with Trace(server.pid) as trace, Shakes(server.pid, options=("--by", "sni,port")) as shakes:
            exchanges = [each for version in (TLS_1_2, TLS_1_3) for each in Client(port, version).connect_times(TIMES)]
            unknown_ca(port)
        mapped = Path(f"/proc/{server.pid}/maps").read_text()
    assert str(stripped_package) in mapped
    assert count(trace.document, "SSL_do_handshake") == 2 * TIMES
    assert losses(trace.document) == {}
    assert endings(shakes.document) == {"success": 2 * TIMES, "failure": 1}
    due = [(exchange.version, exchange.cipher, str(port), "ecdsa_secp256r1_sha256") for exchange in exchanges]
    assert labels_of(shakes.ended("success"), "version", "cipher", "port", "signature") == due
    assert {*labels_of(shakes.ended("success"), "group")} != {(None,)}
    for single in shakes.ended("success"):
        assert {"private_key", "key_exchange"} <= single["parts_ns"].keys()
    [cause] = shakes.document["handshakes"]["causes"]
    assert cause["reason"] == "tlsv1 alert unknown ca"
    assert_books(shakes)


@pytest.mark.usefixtures("stripped_package")
def test_a_slow_client_of_a_stripped_openssl_in_another_library(certificates: Path) -> None:
    """The server waits in its call. Each client's kernel notes when its flights left and came: what that took is the wait."""
    think_s = 0.05
    with serving("pyopenssl", certificates) as (server, port), Shakes(server.pid, options=("--by", "sni")) as shakes:
        stamps = stamped(port, Stamping(times=TIMES, version="TLSv1_3", think_s=think_s), os.sched_getaffinity(0))
    singles = {single["labels"]["sni"]: single for single in shakes.singles}
    assert {*singles} == {stamp.name for stamp in stamps}
    for stamp in stamps:
        answered_ns = stamp.sent_ns[1] - max(came for came in stamp.received_ns if came < stamp.sent_ns[1])
        assert answered_ns >= think_s * 1e9
        assert for_peer_ns(singles[stamp.name]) == pytest.approx(answered_ns, rel=0.1)
    assert_books(shakes)


@pytest.mark.usefixtures("stripped_package")
def test_certificates_of_a_stripped_openssl_in_another_library(certificates: Path, tmp_path: Path) -> None:
    """The server's with one that it sends with it, and those that clients give or don't."""
    own, other = make_certificate("ecdsa", tmp_path), make_certificate("rsa", certificates)
    alone = bytes_of(own.certificate)
    with own.certificate.open("a") as chain:
        chain.write(other.certificate.read_text())
    with serving("asking", tmp_path) as (server, port), Shakes(server.pid) as shakes:
        for certificate in (None, own):
            for version in (TLS_1_2, TLS_1_3):
                Client(port, version, certificate=certificate).connect_times(TIMES)
    assert Counter(labels_of(shakes.ended("success"), "version", "client_certificate")) == {
        (version, given): TIMES for version in ("TLSv1.2", "TLSv1.3") for given in ("not given", "given")
    }
    assert all("peer_verification" in single["parts_ns"] for single in shakes.singles if given_by(single))
    [served] = shakes.document["handshakes"]["certificates"]
    assert (served["count"], served["port"], served["chain"]) == (4 * TIMES, port, 1)
    assert (served["certificate"]["size"], served["chain_bytes"]) == (alone, alone + bytes_of(other.certificate))
    assert_books(shakes)


def given_by(single: Shake) -> bool:
    """Whether its client has given a certificate."""
    return bool(single["labels"]["client_certificate"] == "given")


@pytest.mark.usefixtures("stripped_package")
def test_a_client_of_a_stripped_openssl_in_another_library(certificates: Path) -> None:
    with (
        serving("pyopenssl", certificates) as (server, port),
        connecting(certificates, port) as (pid, connect),
        Shakes(pid, server.pid, options=("--role", "client", "--by", "port")) as shakes,
    ):
        for _ in range(TIMES):
            connect("localhost")
    assert endings(shakes.document) == {"success": TIMES}
    due = ("TLSv1.3", "client", str(port), None)  # the certificate that it has checked is its server's
    assert labels_of(shakes.singles, "version", "role", "port", "client_certificate") == TIMES * [due]
    for single in shakes.singles:
        assert {*single["parts_ns"]} & {*PHASES} - {"rest"} == {"key_exchange", "peer_verification"}
    assert_books(shakes)


@contextmanager
def connecting(certificates: Path, port: int) -> Iterator[tuple[int, Callable[[str], None]]]:
    """A client's process, and what has it make a connection with that name."""
    pair = make_certificate("ecdsa", certificates)
    command = [*program("connecting"), str(pair.certificate), str(pair.key), str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def connect(name: str) -> None:
            assert process.stdin
            assert process.stdout
            process.stdin.write(f"{name}\n")
            process.stdin.flush()
            assert process.stdout.readline() == "connected\n"

        connect("localhost")
        yield process.pid, connect
        process.communicate()


@pytest.mark.parametrize("option", ["--pid", "--comm"])
def test_the_boringssl_of_netty_is_counted(certificates: Path, option: str) -> None:
    """Its file is deleted as soon as it is mapped, and shows the names of its functions."""
    with serving("netty", certificates) as (server, port):
        [file] = stack(server.pid, "BoringSSL")["files"]
        words = (option, {"--pid": str(server.pid), "--comm": "java"}[option])
        with Trace(options=words) as trace, Shakes(options=words) as shakes:
            for version in (TLS_1_2, TLS_1_3):
                Client(port, version).connect_times(TIMES)
            unknown_ca(port)
    assert file["deleted"]
    assert count(trace.document, "ECDSA_sign") == 2 * TIMES + 1
    assert_signed(shakes, 2 * TIMES)
    assert losses(trace.document) == {}
    assert endings(shakes.document) == {"success": 2 * TIMES, "failure": 1}
    assert all({"private_key", "key_exchange"} <= single["parts_ns"].keys() for single in shakes.ended("success"))
    assert_books(shakes)


def assert_signed(shakes: Shakes, full: int) -> None:
    """So many successful handshakes were full, each with a signature by the server's key and its certificate."""
    signed = [single for single in shakes.ended("success") if single["labels"]["resumed"] == "no"]
    assert labels_of(signed, "signature", "client_certificate") == full * [("ecdsa_secp256r1_sha256", "not asked")]
    served = shakes.document["handshakes"]["certificates"]  # by the name that was asked for
    assert {one["certificate"]["key"] for one in served} == {"ECDSA P-256"}
    assert sum(one["count"] - one["unsuccessful"] for one in served) == full
    assert shakes.document["handshakes"]["certificates_untold"] == 0


def shake(
    port: int, version: ssl.TLSVersion, name: str | None = None, *, verify: ssl.VerifyMode = ssl.CERT_NONE
) -> tuple[str | None, str, str, str | None, str]:
    """A handshake as a client of gRPC makes it; the server's settings come after it. Version, cipher, whether a session was
    resumed, the protocol, and the name that was asked for."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, verify
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2"])
    with socket.create_connection(("127.0.0.1", port)) as peer, context.wrap_socket(peer, server_hostname=name) as connection:
        assert connection.recv(1)
        cipher = connection.cipher()
        assert cipher
        resumed = "yes" if connection.session_reused else "no"
        return connection.version(), cipher[0], resumed, connection.selected_alpn_protocol(), name or "none"


def test_the_stripped_boringssl_of_grpc_is_counted(certificates: Path) -> None:
    """It shows no name: its functions are found by the errors that they raise."""
    with serving("grpc", certificates) as (server, port):
        found = stack(server.pid, "BoringSSL")
        with Trace(server.pid) as trace, Shakes(server.pid, options=("--by", "alpn,sni")) as shakes:
            negotiated = [
                shake(port, version, ("grpc.example", None)[number % 2])
                for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
                for number in range(TIMES)
            ]
            with pytest.raises(ssl.SSLCertVerificationError):
                shake(port, ssl.TLSVersion.TLSv1_2, "grpc.example", verify=ssl.CERT_REQUIRED)
            wait_for(lambda: shakes.printed('"ending": "failure"'))  # the server reads the alert once its client is gone
    assert found["traced"]
    assert count(trace.document, "SSL_do_handshake") == 2 * TIMES
    assert count(trace.document, "SSL_do_handshake", "failure") == 1
    assert losses(trace.document) == {}
    assert endings(shakes.document) == {"success": 2 * TIMES, "failure": 1}
    assert all({"private_key", "key_exchange"} <= single["parts_ns"].keys() for single in shakes.ended("success"))
    assert [cause["reason"] for cause in shakes.document["handshakes"]["causes"]] == ["tlsv1 alert unknown ca"]
    assert labels_of(shakes.ended("success"), "version", "cipher", "resumed", "alpn", "sni") == negotiated
    assert labels_of(shakes.ended("failure"), "sni") == [("grpc.example",)]
    assert_signed(shakes, 2 * TIMES)
    assert_books(shakes)


def test_the_stripped_boringssl_of_conscrypt_is_counted(certificates: Path) -> None:
    """Its file is deleted as soon as it is mapped, and names no function of BoringSSL."""
    with serving("conscrypt-2.6", certificates) as (server, port):
        found = stack(server.pid, "BoringSSL")
        with Trace(server.pid) as trace, Shakes(server.pid) as shakes:
            negotiated = [
                answered(port, version) for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3) for _ in range(TIMES)
            ]
            with pytest.raises(
                ssl.SSLCertVerificationError
            ):  # of TLS 1.3 its alert is in plain text, which BoringSSL can't decrypt
                shake(port, ssl.TLSVersion.TLSv1_2, "localhost", verify=ssl.CERT_REQUIRED)
            wait_for(lambda: shakes.printed('"ending": "failure"'))
    assert found["traced"]
    assert count(trace.document, "SSL_do_handshake") == 4 * TIMES  # it calls it once more when the handshake is over
    assert count(trace.document, "SSL_do_handshake", "failure") == 1
    assert losses(trace.document) == {}
    assert endings(shakes.document) == {"success": 2 * TIMES, "failure": 1}
    assert all({"private_key", "key_exchange"} <= single["parts_ns"].keys() for single in shakes.ended("success"))
    assert [cause["reason"] for cause in shakes.document["handshakes"]["causes"]] == ["tlsv1 alert unknown ca"]
    assert labels_of(shakes.ended("success"), "version", "cipher", "resumed") == negotiated
    assert_signed(shakes, 2 * TIMES)
    assert_books(shakes)


def test_handshakes_of_a_client_of_grpc_are_counted(certificates: Path) -> None:
    """The server's side, which has the same library, isn't."""
    with serving("grpc", certificates) as (server, port):
        [library] = [file["path"] for file in stack(server.pid, "BoringSSL")["files"]]
        certificate = make_certificate("ecdsa", certificates).certificate
        command = [sys.executable, "-m", "tests.live.clients.grpc_calls", str(port), str(certificate), str(TIMES), "0"]
        with Shakes(options=("--library", library, "--role", "client", "--by", "alpn")) as shakes:
            subprocess.run(command, check=True, cwd=foreign.TOP, timeout=60)
    assert endings(shakes.document) == {"success": TIMES}
    assert labels_of(shakes.singles, "version", "role", "resumed", "alpn") == TIMES * [("TLSv1.3", "client", "no", "h2")]
    for single in shakes.singles:
        assert {*single["parts_ns"]} & {*PHASES} - {"rest"} == {"key_exchange", "peer_verification"}
    assert_books(shakes)


def test_openssl_in_another_library_that_is_loaded_later_is_counted(certificates: Path) -> None:
    with started("pyopenssl", certificates, "1") as (server, port), Trace(server.pid, options=("--wait",)) as trace:
        assert server.stdin
        server.stdin.write(b"\n")
        server.stdin.flush()
        trace.wait_until_said("_rust.abi3.so")
        wait_for(lambda: listens(port))
        Client(port, TLS_1_3).connect_times(TIMES)
    assert count(trace.document, "SSL_do_handshake") == TIMES
    assert losses(trace.document) == {"late_processes": 1}  # it had mapped the file before it was traced


def test_functions_of_rustls_in_a_stripped_library_are_counted(certificates: Path) -> None:
    """In Granian, which refuses TLS 1.2: such a ClientHello counts, and comes to no key exchange."""
    names = ("rustls::server::hs::ExpectClientHello::handle", "ring::agreement::agree_ephemeral")
    with serving("granian", certificates) as (server, port), Trace(server.pid) as trace:
        for _ in range(TIMES):
            answered(port, ssl.TLSVersion.TLSv1_3)
            with pytest.raises(ssl.SSLError):
                answered(port, ssl.TLSVersion.TLSv1_2)
    assert [count(trace.document, name, "unknown") for name in names] == [2 * TIMES, TIMES]
    signers = {name: f"rustls::crypto::ring::sign::{name}Signer::sign" for name in ("Ecdsa", "Rsa", "Ed25519")}
    signs = {name: count(trace.document, signer, "unknown") for name, signer in signers.items()}
    assert signs == {"Ecdsa": TIMES, "Rsa": 0, "Ed25519": 0}
    assert [note for note in trace.document["notes"] if "but not how they ended" in note]
    assert losses(trace.document) == {}


def answered(port: int, version: ssl.TLSVersion) -> tuple[str | None, str, str]:
    """A handshake and a request, to its answer: version, cipher, and whether a session was resumed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    with socket.create_connection(("127.0.0.1", port)) as peer, context.wrap_socket(peer) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        cipher = connection.cipher()
        assert cipher
        return connection.version(), cipher[0], "yes" if connection.session_reused else "no"


@pytest.mark.parametrize(("name", "implementation"), [("granian", "rustls"), ("conscrypt", "BoringSSL")])
def test_what_cannot_be_traced_is_said_alike(certificates: Path, name: str, implementation: str) -> None:
    """By `targets` and by what would trace it."""
    with serving(name, certificates) as (server, _):
        found = stack(server.pid, implementation)
        process = ("-p", str(server.pid))
        said = [
            subprocess.run([PROGRAM, *words, *process], capture_output=True, text=True, check=False, timeout=60).stderr
            for words in (("handshakes", "-d", "1"), ("probes",))
        ]
    assert not found["traced"]
    if implementation == "BoringSSL":
        assert "shows no names of its functions (stripped)" in found["reason"]
    # Its Python may have mapped an OpenSSL of its own as well, which is traced.
    sentence = found["reason"] if implementation == "BoringSSL" else "rustls, which isn't traced"
    assert all(sentence in each.replace("is rustls, which", "rustls, which") for each in said)
