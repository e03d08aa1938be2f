# SPDX-License-Identifier: Apache-2.0
"""The function that adds a message to a handshake's transcript, in stripped libraries: by the name that it holds and by what it
calls, which say the same where both do."""

from __future__ import annotations

import pytest
from tests import foreign

from ssllatency.code.bodies import Bodies
from ssllatency.code.flow import Unplannable
from ssllatency.elf.image import Image
from ssllatency.probes.handshake.phases import plan_handshake
from ssllatency.probes.planner import machine_of
from ssllatency.stacks.openssl.handshake import transcript


def image_of(name: str) -> Image:
    return Image.open(foreign.needed(foreign.find(name)))


@pytest.mark.parametrize("name", ["libssl-3.5-x86-64", "libssl-3.5-arm64"])
def test_both_ways_lead_to_one_function(name: str) -> None:
    image = image_of(name)
    adding = transcript._adding(image, Bodies(image, machine_of(image.machine)))
    assert len(adding) == 1
    assert transcript._holding(image) == adding
    [(start, end)] = adding
    site = plan_handshake(image).transcript
    assert site is not None
    assert start <= site.address < end


def test_of_two_that_may_hold_its_name_the_one_that_adds_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in OpenSSL 3.6 for aarch64, where other code takes an address on the same page; two that add are not told apart."""
    image = image_of("libssl-3.5-x86-64")
    bodies = Bodies(image, machine_of(image.machine))
    [(start, end)] = transcript._adding(image, bodies)
    monkeypatch.setattr(transcript, "_holding", lambda _: {(start, end), (end, end + 64)})
    function = transcript.transcript_function(image, bodies)
    assert function
    assert (function.address, function.size) == (start, end - start)
    monkeypatch.setattr(transcript, "_adding", lambda *_: {(start, end), (end, end + 64)})
    with pytest.raises(Unplannable):
        transcript.transcript_function(image, bodies)


def test_none_is_looked_for_in_an_openssl_that_serves_no_quic() -> None:
    image = image_of("libssl-3.0-arm64")
    assert transcript.transcript_function(image, Bodies(image, machine_of(image.machine))) is None


def test_of_a_go_program_the_returns_of_the_function_are_known() -> None:
    plan = plan_handshake(image_of("caddy-trixie"))
    assert (plan.transcript, len(plan.parameters)) == (None, 2)
    assert plan_handshake(image_of("caddy-bookworm")).parameters == ()
