# SPDX-License-Identifier: Apache-2.0
"""rustls in a program, with symbols and without: messages, signatures and key exchanges are as many as clients have caused, and
without symbols the same functions are found as with them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ssllatency.elf.image import Image
from ssllatency.probes.planner import plan_image
from ssllatency.stacks.rustls.operations import (
    AGREE,
    CLIENT_HELLO,
    ECDSA_SIGN,
    ED25519_SIGN,
    RSA_SIGN,
    TLS12_FINISHED,
    TLS13_FINISHED,
)
from tests.foreign import needed, rust_server
from tests.live.clients import bad
from tests.live.clients.counted import TLS_1_2, TLS_1_3, Client
from tests.live.commands.trace import Trace, count, losses
from tests.live.servers.nginx import make_certificate
from tests.live.servers.programs import started

pytestmark = pytest.mark.usefixtures("tracing")

TIMES = 20
FINISHED = {TLS_1_2: TLS12_FINISHED, TLS_1_3: TLS13_FINISHED}
SIGNS = {"rsa": RSA_SIGN, "ecdsa": ECDSA_SIGN}


def built(cryptography: str) -> Path:
    """The server with that of the two."""
    return needed(rust_server(f"rustls-{cryptography}"))


def without_symbols(program: Path, folder: Path) -> Path:
    """A stripped copy."""
    subprocess.run(["strip", "-o", folder / "server", program], check=True)
    return folder / "server"


def ask_for_another_group(port: int) -> None:
    """A handshake with a second ClientHello, as the first has a share of a group that the server hasn't got."""
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-groups", "P-521:X25519", "-tls1_3"]
    said = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=10).stdout
    assert "X25519" in said


def connect(port: int) -> None:
    """TIMES handshakes of each version, one of TLS 1.3 with another group, and one that the client ends before its Finished."""
    for version in (TLS_1_2, TLS_1_3):
        Client(port, version).connect_times(TIMES)
    ask_for_another_group(port)
    bad.unknown_ca(port)


@pytest.mark.parametrize(("kind", "stripped"), [("ecdsa", False), ("rsa", True)])
def test_functions_of_rustls_with_ring_are_counted(certificates: Path, tmp_path: Path, kind: str, stripped: bool) -> None:
    program = without_symbols(built("ring"), tmp_path) if stripped else built("ring")
    pair = make_certificate(kind, certificates)
    with started(program, pair.certificate, pair.key) as (server, port), Trace(server.pid) as trace:
        connect(port)
    counted = {
        name: count(trace.document, name, "unknown") for name in (CLIENT_HELLO, *FINISHED.values(), *SIGNS.values(), AGREE)
    }
    done = dict.fromkeys(counted, 0) | {CLIENT_HELLO: 2 * TIMES + 3, SIGNS[kind]: 2 * TIMES + 2, AGREE: 2 * TIMES + 2}
    finished = {} if stripped else {FINISHED[TLS_1_2]: TIMES, FINISHED[TLS_1_3]: TIMES + 1}
    assert counted == done | finished
    assert {row["outcome"] for row in trace.document["functions"]} == {"unknown"}
    assert losses(trace.document) == {}
    missing = {each["function"] for each in trace.document["missing"]}
    assert missing == ({*FINISHED.values()} if stripped else set())


def test_without_symbols_the_same_functions_are_found(tmp_path: Path) -> None:
    plans = [plan_image(Image.open(path)) for path in (built("ring"), without_symbols(built("ring"), tmp_path))]
    named, unnamed = ({each.operation: (each.address, each.probes) for each in plan.operations} for plan in plans)
    assert {*named} == {CLIENT_HELLO, *FINISHED.values(), *SIGNS.values(), ED25519_SIGN, AGREE}
    assert unnamed == {name: probes for name, probes in named.items() if name not in FINISHED.values()}


def test_functions_of_aws_lc_rs_are_counted(certificates: Path) -> None:
    """With symbols that are mangled in the older way."""
    pair = make_certificate("rsa", certificates)
    with started(built("aws-lc-rs"), pair.certificate, pair.key) as (server, port), Trace(server.pid) as trace:
        connect(port)
    signed = dict.fromkeys(("aws_lc_EVP_DigestSign", "aws_lc_RSA_sign_pss_mgf1", "aws_lc_EVP_PKEY_derive"), 2 * TIMES + 2)
    handled = {CLIENT_HELLO: 2 * TIMES + 3, FINISHED[TLS_1_2]: TIMES, FINISHED[TLS_1_3]: TIMES + 1}
    assert {name: count(trace.document, name, "unknown") for name in handled} == handled
    assert {name: count(trace.document, name) for name in signed} == signed
    assert count(trace.document, "aws_lc_ECDSA_sign") == 0
    assert losses(trace.document) == {}
