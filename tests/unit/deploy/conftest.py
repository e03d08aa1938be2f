# SPDX-License-Identifier: Apache-2.0
"""Prometheus servers, Debian's 3 and 2.42, that scrape two made-up hosts twice a second."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.parameters import slow_except
from tests.prometheus.exporters import exporters
from tests.prometheus.programs import SUITES
from tests.prometheus.server import Server, prometheus, scraping
from tests.prometheus.traffic import Host

HOSTS = ("web1", "web2")
ENOUGH = "min(count_over_time(up[1m])) > 4 and count(up) == 2"


@pytest.fixture(scope="session", params=slow_except(SUITES))
def scraped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One that has scraped both several times."""
    hosts = {name: Host(name, seed) for seed, name in enumerate(HOSTS)}
    paths = {name: f"/metrics/{name}" for name in hosts}
    with exporters({paths[name]: host.read for name, host in hosts.items()}) as address:
        configuration = scraping(address, paths, "500ms", request.param)
        with prometheus(tmp_path_factory.mktemp("prometheus"), configuration, request.param) as server:
            server.wait_for(lambda: bool(server.query(ENOUGH)))
            yield server
