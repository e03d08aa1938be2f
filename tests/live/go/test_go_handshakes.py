# SPDX-License-Identifier: Apache-2.0
"""Handshakes of Go's crypto/tls, compared with what a program counts that makes them as server and as client at once: how they
end and why, what labels them, and who calls them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ssllatency.model.arithmetic.handshake_sums import total
from ssllatency.model.handshakes import Ending
from ssllatency.reports.documents.recording_reading import from_text
from tests import programs
from tests.live.commands.export import Export
from tests.live.commands.handshakes import PHASES, WAITS, Shake, Shakes, labels_of
from tests.live.commands.trace import PROGRAM, losses
from tests.live.go.test_go import CONNECTIONS, NEEDED, OTHERS, GoProgram
from tests.live.screens.terminal import Terminal
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("tracing")

EACH = CONNECTIONS // 8
KINDS = {
    "echo": 2 * EACH,
    "recovers": 2 * EACH,
    "late": EACH,
    "nested": EACH,
}  # those that succeed; the nested ones ask for echo
VERSIONS = {"TLSv1.2": 7 * EACH // 2, "TLSv1.3": 5 * EACH // 2}  # by turns, but 1.2 within handshakes
SIGNER, SIGNER_NS = "signer.test", 5_000_000
USED_NS = 3_000_000  # by each use of a key elsewhere
# Who has one, by what clients ask for.
ELSEWHERE: dict[str, tuple[str, ...]] = {
    "signs-old": ("server", "client"),
    "signs-new": ("server", "client"),
    "decrypts": ("server",),
    "own-old": (),
    "own-new": (),
    "own-decrypts": (),
}
LEFT = "connection reset or closed by the peer"


@contextmanager
def started(name: str, *arguments: str, command: Sequence[str | Path] = ()) -> Iterator[GoProgram]:
    """The program of that name, which waits to be told to begin."""
    program = GoProgram(name, *arguments, command=command)
    try:
        yield program
    finally:
        program.kill()


@pytest.fixture(scope="module", params=[*NEEDED, *OTHERS])
def counted(request: pytest.FixtureRequest) -> tuple[Shakes, dict[str, Any]]:
    """All handshakes of a program, built by one of several versions of Go, and what it counted itself."""
    with started(request.param) as program:
        with Shakes(program.pid, options=("--role", "any", "--by", "role,sni,alpn,port,peer")) as shakes:
            own = program.run()
        return shakes, own


def of_role(shakes: Shakes, role: str, ending: str | None = None) -> list[Shake]:
    """Those of servers or clients that ended so, however where it is None."""
    return [
        single
        for single in shakes.singles
        if single["labels"]["role"] == role and (ending is None or single["ending"] == ending)
    ]


def values(singles: list[Shake], label: str) -> Counter[str | None]:
    """How many have which value of a label."""
    return Counter(single["labels"][label] for single in singles)


def test_each_handshake_has_its_outcome_and_labels(counted: tuple[Shakes, dict[str, Any]]) -> None:
    shakes, own = counted
    for role in ("server", "client"):
        succeeded, calls = of_role(shakes, role, "success"), own[f"{role}Handshake"]
        assert (len(succeeded), len(of_role(shakes, role))) == (calls["success"], calls["success"] + calls["failure"])
        assert values(succeeded, "sni") == {f"{kind}.test": number for kind, number in KINDS.items()}
        assert values(succeeded, "version") == VERSIONS
        assert values(succeeded, "resumed") == {"no": len(succeeded)}
        assert values(succeeded, "alpn") == {"none": len(succeeded)}
        assert values(succeeded, "peer") == {"127.0.0.0/24": len(succeeded)}
        assert len(values(succeeded, "port")) == 1, "the listener's, on both sides"
        assert {cipher and cipher.split("_")[0] for cipher in values(succeeded, "cipher")} == {"TLS"}
    servers = of_role(shakes, "server", "success")
    assert values(servers, "client_certificate") == {"not asked": len(servers)}
    assert all(single["parts_ns"]["private_key"] for single in servers)
    uses = [(use["operation"], use["key"], use["count"]) for use in shakes.document["handshakes"]["keys"]]
    assert uses == [("sign", "ECDSA P-256", len(servers))]
    assert not any("private_key" in single["parts_ns"] for single in of_role(shakes, "client"))
    assert all("key_exchange" in single["parts_ns"] for single in servers)
    assert all("peer_verification" in single["parts_ns"] for single in of_role(shakes, "client", "success"))
    assert losses(shakes.document) == {"left": own["serverHandshake"]["left"]}
    assert shakes.document["handshakes"]["in_flight"] == 0
    for parts in (single["parts_ns"] for single in shakes.singles):
        assert parts["wall"] == parts["calls"] + sum(parts.get(wait, 0) for wait in WAITS)
        assert parts["calls"] == sum(parts.get(phase, 0) for phase in PHASES)
        assert "wait_unknown" not in parts, "all of its sockets are known"
    waited = [single for single in shakes.singles if "wait_peer" in single["parts_ns"] or "queue_server" in single["parts_ns"]]
    assert 2 * len(waited) > len(shakes.singles)


@pytest.mark.parametrize("name", [*NEEDED, *OTHERS])
def test_labels_are_those_that_clients_have_negotiated(name: str) -> None:
    with started(name, "labels") as program, Shakes(program.pid, options=("--by", "sni,alpn")) as shakes:
        negotiated = program.run()
    servers = labels_of(shakes.singles, "sni", "resumed", "signature")
    assert {signature for sni, resumed, signature in servers if resumed == "no" and sni != SIGNER} == {"rsa_pss_rsae_sha256"}
    assert {signature for sni, _, signature in servers if sni == SIGNER} == {"unknown"}
    assert {signature for _, resumed, signature in servers if resumed == "yes"} == {"none"}
    names = ("sni", "version", "cipher", "resumed", "alpn", "client_certificate")
    assert Counter(" ".join(map(str, labels)) for labels in labels_of(shakes.singles, *names)) == negotiated
    assert len(negotiated) == len({label.split()[0] for label in negotiated}) + 2, "the first ones of those that resume"
    groups = {group for group, sni in labels_of(shakes.singles, "group", "sni") if sni == "p384.test"}
    assert groups == {"secp384r1" if program.keeps_group else None}
    uses = {(use["operation"], use["key"]) for use in shakes.document["handshakes"]["keys"]}
    assert uses == {("sign", "RSA-2048"), ("sign", "")}
    assert_phases(shakes.singles)


def assert_phases(singles: list[Shake]) -> None:
    """Each handshake has those that its kind takes, and the program's own signer the time that it sleeps."""
    for single in singles:
        parts, labels = single["parts_ns"], single["labels"]
        by_name, is_resumed = labels["sni"].removesuffix(".test"), labels["resumed"] == "yes"
        assert ("private_key" in parts) == (not is_resumed)
        assert ("key_exchange" in parts) == (by_name != "resumed-old" or not is_resumed), "TLS 1.3 agrees on a key again"
        assert ("session_lookup" in parts) == is_resumed
        assert ("peer_verification" in parts) or by_name != "certificate"
        assert parts["calls"] == sum(parts.get(phase, 0) for phase in PHASES)
        if labels["sni"] == SIGNER:
            assert parts["private_key"] > SIGNER_NS
            assert "on_cpu" not in parts, "its goroutine gave its thread away"


@pytest.mark.parametrize("name", [*NEEDED, *OTHERS])
def test_keys_elsewhere_are_private_keys_as_well(name: str) -> None:
    """Those of the standard library count as themselves, also where crypto/tls uses them as it uses any other."""
    options = ("--role", "any", "--by", "role,sni,version")
    with started(name, "signers") as program, Shakes(program.pid, options=options) as shakes:
        own = program.run()
    each = len(shakes.singles) // 2 // len(ELSEWHERE)
    assert own == {"sign": 4 * each, "decrypt": each}, "TLS 1.2 and 1.3, by servers and clients"
    labels = Counter((single["labels"]["sni"], single["labels"]["role"], single["ending"]) for single in shakes.singles)
    assert labels == {(f"{sni}.test", role, "success"): each for sni in ELSEWHERE for role in ("server", "client")}
    uses = Counter({(use["operation"], use["key"]): use["count"] for use in shakes.document["handshakes"]["keys"]})
    assert uses == {
        ("sign", ""): own["sign"],
        ("decrypt", "RSA"): own["decrypt"],  # no other kind decrypts
        ("sign", "RSA-2048"): 6 * each,  # all clients sign
        ("decrypt", "RSA-2048"): each,
    }
    for single in shakes.singles:
        parts = single["parts_ns"]
        assert parts["calls"] == sum(parts.get(phase, 0) for phase in PHASES)
        least = USED_NS if single["labels"]["role"] in ELSEWHERE[single["labels"]["sni"].removesuffix(".test")] else 0
        assert least < parts["private_key"] < parts["calls"]
    assert losses(shakes.document) == {}


def test_failures_have_their_reasons(counted: tuple[Shakes, dict[str, Any]]) -> None:
    """The client refuses a certificate, and tells the server so; or the server is gone in the midst of a handshake."""
    shakes, own = counted
    failed = [single for single in shakes.singles if single["ending"] != "success"]
    reasons = Counter((single["labels"]["role"], single["ending"], single["reason"], single["alert"]) for single in failed)
    refusals = own["serverHandshake"]["failure"]
    refused = next(reason for role, _, reason, _ in reasons if role == "client" and reason != LEFT)
    assert reasons == {
        ("server", "failure", "alert received: bad certificate", "bad certificate"): refusals,
        ("client", "failure", refused, "bad certificate"): refusals,
        ("client", "abandoned", LEFT, ""): own["clientHandshake"]["failure"] - refusals,
    }
    # A type of its own since Go 1.20; before, that of what was found.
    assert refused in ("certificate verification failed", "error of type x509.HostnameError")


def exported(export: Export) -> float:
    """How many successful handshakes the metrics have."""
    name = r"^ssllatency_handshake_duration_seconds_count\{[^}]*outcome=\"success\"[^}]*\} (\S+)$"
    return sum(map(float, re.findall(name, export.metrics(), re.MULTILINE)))


def test_export_and_top_count_each_handshake(tmp_path: Path) -> None:
    """Both at once, of the same handshakes."""
    programs.needed("tmux")
    file = tmp_path / "x.jsonl"
    with ExitStack() as running:
        program = running.enter_context(started(NEEDED[-1], "labels"))
        words = [str(PROGRAM), "top", "-p", str(program.pid), "-o", str(file), "-i", "500ms"]
        terminal = running.enter_context(Terminal(words))
        export = running.enter_context(Export(program.pid))
        terminal.wait_for(lambda text: "probes" in text)
        terminal.press("r")
        terminal.wait_for(lambda text: " REC " in text)
        handshakes = sum(program.run().values())
        intervals = file.read_text().count('"interval":')
        wait_for(lambda: file.read_text().count('"interval":') > intervals)
        terminal.press("r")
        # What it says of the file then may be gone at once, as the program has ended.
        terminal.wait_for(lambda text: " REC " not in text)
        wait_for(lambda: exported(export) == handshakes)
    recording = from_text(file.read_text(), "x")
    counts = [total(interval.handshakes, Ending.SUCCESS) for interval in recording.intervals if interval.handshakes]
    assert sum(group.count for group in counts if group) == handshakes
