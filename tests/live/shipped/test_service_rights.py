# SPDX-License-Identifier: Apache-2.0
"""A trace with exactly the capabilities of the service's unit, as its user would have them: no more are needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deploy import rights
from tests.live.clients.counted import TLS_1_3, Client
from tests.live.commands.trace import Trace
from tests.live.following.test_targets import TIMES, assert_exact
from tests.live.safety.test_privileges import dropped, home
from tests.live.servers.nginx import Nginx

__all__ = ["home"]


@pytest.mark.usefixtures("tracing")
def test_the_services_capabilities_suffice(certificates: Path, home: Path) -> None:
    command = ("setpriv", "--no-new-privs", *dropped(home, *sorted(rights.of_unit())))
    with Nginx(certificates) as server, Trace(server.master_pid, prefix=command) as trace:
        exchanges = Client(server.port["ecdsa"], TLS_1_3).connect_times(TIMES)
        server.wait_idle()
    assert_exact(trace.document, exchanges)
