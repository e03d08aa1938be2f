# SPDX-License-Identifier: Apache-2.0
"""What is the network's or the clients' own is planted in a link or in its clients, and the diagnosis names it first; of a near
and prompt client it says nothing about either."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ssllatency.reports.diagnosis.diagnosis import Diagnosis, diagnoses
from ssllatency.reports.diagnosis.rule import Subject
from ssllatency.reports.documents.document import from_document
from tests.live.clients.stamped import Stamping, stamped
from tests.live.commands.handshakes import Shakes, assert_books
from tests.live.links.link import TO_CLIENT, Link, awake
from tests.live.servers.nginx import Nginx, Settings, make_certificate
from tests.machine import NEEDS_QUIET

pytestmark = [pytest.mark.usefixtures("tracing"), NEEDS_QUIET]
TIMES = 32
NETWORK = (Subject.PEER, Subject.LOSSES, Subject.ROUND_TRIPS)
FAR = {"delay_s": 0.01}


def told(
    certificates: Path, stamping: Stamping, link: Mapping[str, Any], drop: int = 0, curve: str = "auto"
) -> list[Diagnosis]:
    """What is said of a server's clients and of the way to them. `drop`: which of its segments is lost of each connection;
    `curve`: the only group that it accepts."""
    with awake(), Link() as wire:
        with wire.at_server():
            server = Nginx(certificates, Settings(kinds=("ecdsa",), curve=curve))
            server.__enter__()
        try:
            with Shakes(server.master_pid) as shakes, wire.at_client():
                wire.set(**link)
                wire.drop(TO_CLIENT, drop)
                stamped(server.port["ecdsa"], stamping, os.sched_getaffinity(0))
        finally:
            server.__exit__(None, None, None)
    assert_books(shakes)
    snapshot = from_document(shakes.document)
    assert snapshot.handshakes
    return [each for each in diagnoses(snapshot.handshakes, snapshot.duration_s) if each.rule.subject in NETWORK]


def names(certificates: Path, stamping: Stamping, link: Mapping[str, Any], drop: int = 0) -> list[str]:
    return [each.rule.name for each in told(certificates, stamping, link, drop)]


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_near_and_prompt_clients_are_not_to_blame(certificates: Path, version: str) -> None:
    assert names(certificates, Stamping(times=TIMES, version=version), {}) == []


def test_far_clients_are_told_by_their_round_trips(certificates: Path) -> None:
    (only,) = told(certificates, Stamping(times=TIMES, version="TLSv1_3"), FAR)
    assert only.rule.name == "far_clients"
    assert "they are far away, given that the shortest round trip explains" in only.sentence


def test_a_version_that_takes_one_more_round_trip_is_told_of_far_clients(certificates: Path) -> None:
    (first, second) = told(certificates, Stamping(times=TIMES, version="TLSv1_2"), FAR)
    assert (first.rule.name, second.rule.name) == ("old_version", "far_clients")
    assert first.sentence.startswith("100 % of the handshakes are TLS 1.2: a full one takes one more round trip")


def test_clients_that_take_their_time_are_not_far(certificates: Path) -> None:
    (only,) = told(certificates, Stamping(clients=8, times=TIMES // 8, think_s=0.15), {})
    assert only.rule.name == "slow_clients"
    assert "the clients take their time, or the network delays" in only.sentence


def test_losses_are_neither_distance_nor_the_clients(certificates: Path) -> None:
    (first, *others) = told(certificates, Stamping(clients=8, times=TIMES // 8, version="TLSv1_3"), FAR, drop=1)
    assert first.rule.name == "losses"
    assert "in 100 % of the handshakes; this side sent" in first.sentence
    assert "slow_clients" not in [each.rule.name for each in others]


@pytest.mark.parametrize(("link", "first"), [(FAR, ["hello_retries"]), ({}, [])], ids=["far", "near"])
def test_a_group_that_clients_send_no_share_of_costs_far_ones_a_round_trip(
    certificates: Path, link: dict[str, float], first: list[str]
) -> None:
    sentences = told(certificates, Stamping(times=TIMES, version="TLSv1_3"), link, curve="prime256v1")
    assert [each.rule.name for each in sentences][:1] == first
    for sentence in sentences[:1]:
        assert sentence.sentence.startswith("100 % of the clients offer no share of the group that this server wants")


@pytest.mark.parametrize("more", [40, 1])
def test_a_chain_that_is_larger_than_the_congestion_window_costs_a_round_trip(tmp_path: Path, more: int) -> None:
    pair = make_certificate("ecdsa", tmp_path)
    pair.certificate.write_bytes(pair.certificate.read_bytes() * more)
    sentences = told(tmp_path, Stamping(times=TIMES, version="TLSv1_3"), FAR)
    assert [each.rule.name for each in sentences] == (["large_flight"] if more > 1 else []) + ["far_clients"]
    if more > 1:
        assert "In 100 % of the handshakes this server's largest flight" in sentences[0].sentence
