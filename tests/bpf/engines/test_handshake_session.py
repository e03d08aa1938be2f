# SPDX-License-Identifier: Apache-2.0
"""The object handshakes, loaded before anything is there to attach it to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ssllatency import abi
from ssllatency.engines.attach.sites import MOST_LIBRARIES
from ssllatency.engines.base import AttachError, Request, TracedImage
from ssllatency.engines.rules import Rules
from ssllatency.engines.sessions.handshakes import HandshakeRequest, HandshakeSession
from ssllatency.openssl.names.names import Names
from ssllatency.probes.handshake.plan import HandshakePlan
from ssllatency.probes.plan import ImagePlan

EMPTY = TracedImage(ImagePlan("/lib/libssl.so", "", "", "libssl", (), ()), "/dev/null", ())
NO_PHASES = HandshakePlan("/lib/libssl.so", "", "libssl", (), (), (), (), None, {}, ())


@pytest.fixture
def session() -> Iterator[HandshakeSession]:
    made = HandshakeSession(HandshakeRequest(Request((), (), follow=Rules()), (), lambda _: Names(), slowest=1, in_flight=1024))
    try:
        made.attach()
        yield made
    finally:
        made.close()


def test_nothing_is_there_yet(session: HandshakeSession) -> None:
    assert session.poll() == []
    handshakes = session.read().handshakes
    assert handshakes is not None
    assert (handshakes.groups, handshakes.in_flight, handshakes.offload) == ((), 0, None)


@pytest.mark.parametrize(
    ("slept", "ended", "watches"),
    [(1, 1, False), (2, 2, False), (3, 3, True), (3, 29, True), (3, 30, False), (30, 299, True)],
)
def test_reads_and_writes_are_watched_once_more_than_a_few_handshakes_slept(
    session: HandshakeSession, slept: int, ended: int, *, watches: bool
) -> None:
    """One that sleeps by chance, as for a lock, mustn't make every read dearer."""
    counters = session.attachment.object.live_section(".data.handshake_counters", abi.HandshakeCounters)
    counters.slept, counters.ended = slept, ended
    session.poll()
    assert bool(counters.watches_transport) is watches


def test_files_past_the_bound_are_refused_in_words(session: HandshakeSession) -> None:
    session.extend([EMPTY] * MOST_LIBRARIES, [NO_PHASES] * MOST_LIBRARIES)
    with pytest.raises(AttachError, match=f"there are {MOST_LIBRARIES} traced files already"):
        session.extend([EMPTY], [NO_PHASES])
    assert len(session.attachment.images) == MOST_LIBRARIES
