# SPDX-License-Identifier: Apache-2.0
"""The application's callbacks in handshakes of Go's crypto/tls, compared with what they say themselves."""

from __future__ import annotations

import pytest

from tests.live.commands.handshakes import PHASES, Shakes, spent_ns
from tests.live.commands.trace import losses
from tests.live.go.test_go import NEEDED, OTHERS
from tests.live.go.test_go_handshakes import of_role, started
from tests.machine import NEEDS_QUIET

pytestmark = pytest.mark.usefixtures("tracing")
PLAIN = "plain.test"
MOST = 1.5  # times what the callbacks say: between a probe and a callback's clock a thread may lose its processor


@NEEDS_QUIET
@pytest.mark.parametrize("name", [*NEEDED, *OTHERS])
def test_callbacks_take_as_long_as_they_say(name: str) -> None:
    """Those within the check of certificates as well, of which they are no part."""
    options = ("--role", "any", "--by", "role,sni,resumed")
    with started(name, "callbacks") as program, Shakes(program.pid, options=options) as shakes:
        own = program.run()
    servers, clients = of_role(shakes, "server", "success"), of_role(shakes, "client", "success")
    assert len(servers) + len(clients) == len(shakes.singles)
    assert own["Calls"]["server"] > 2 * len(servers) - len([one for one in servers if one["labels"]["resumed"] == "yes"])
    for role, singles in (("server", servers), ("client", clients)):
        said = own["Nanoseconds"][role] + own["Nanoseconds"][f"{role} checks"]
        assert said <= spent_ns(singles, "callbacks") <= MOST * said
        assert spent_ns(singles, "peer_verification") < own["Nanoseconds"][f"{role} checks"]
    assert all("callbacks" in single["parts_ns"] for single in servers)
    with_callbacks = {single["labels"]["sni"] for single in clients if "callbacks" in single["parts_ns"]}
    assert with_callbacks == {single["labels"]["sni"] for single in clients} - {PLAIN}
    assert all(
        single["parts_ns"]["calls"] == sum(single["parts_ns"].get(phase, 0) for phase in PHASES) for single in shakes.singles
    )
    assert losses(shakes.document) == {}


def test_each_handshake_counts_the_key_that_it_uses_once() -> None:
    """Also where a callback makes a certificate and signs it, with the key that the handshake uses then."""
    with started(NEEDED[-1], "callbacks") as program, Shakes(program.pid, options=("--by", "sni,resumed")) as shakes:
        program.run()
    signed = [single for single in shakes.singles if single["labels"]["resumed"] == "no"]
    uses = {use["key"]: use["count"] for use in shakes.document["handshakes"]["keys"]}
    fresh = sum(single["labels"]["sni"] == "fresh.test" for single in signed)
    assert uses == {"RSA-2048": len(signed) - fresh, "ECDSA P-256": fresh}
