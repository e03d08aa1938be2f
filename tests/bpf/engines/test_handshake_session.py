# SPDX-License-Identifier: Apache-2.0
"""The object handshakes, loaded before anything is there to attach it to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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


def test_files_past_the_bound_are_refused_in_words(session: HandshakeSession) -> None:
    session.extend([EMPTY] * MOST_LIBRARIES, [NO_PHASES] * MOST_LIBRARIES)
    with pytest.raises(AttachError, match=f"there are {MOST_LIBRARIES} traced files already"):
        session.extend([EMPTY], [NO_PHASES])
    assert len(session.attachment.images) == MOST_LIBRARIES
