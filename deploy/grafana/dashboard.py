# SPDX-License-Identifier: Apache-2.0
"""Makes the Grafana dashboard deploy/grafana/ssllatency.json of what `ssllatency export` offers: `make dashboard`.

Two variables choose what is shown: hosts (Prometheus' label `instance`) and one service. Most of the offload is counted for a
host, not for a service; its panels say so.
"""

from __future__ import annotations

import json
import sys
from itertools import count
from pathlib import Path

from grafana_foundation_sdk.builders.dashboard import Row
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from deploy.grafana.panels import empty_dashboard, variable
from deploy.grafana.queries import HOSTS
from deploy.grafana.rows import cost, events, latency, network, offload, services

FILE = Path(__file__).with_name("ssllatency.json")
_ABOUT = "TLS handshakes and calls of servers, as ssllatency export counts them. It needs Prometheus' native histograms."


def dashboard() -> str:
    """The dashboard as JSON."""
    made = empty_dashboard("TLS latency", "ssllatency", _ABOUT)
    made = made.with_variable(variable("instance", "Host", "label_values(ssllatency_build_info, instance)", several=True))
    names = f"label_values(ssllatency_targets{{{HOSTS}}}, service)"
    made = made.with_variable(variable("service", "Service", names, several=False))
    rows = (
        ("Services", services.panels()),
        ("$service: where the time goes", latency.panels()),
        ("$service: what happens", events.panels()),
        ("$service: the network and resumption", network.panels()),
        ("Private keys and offload", offload.panels()),
        ("What the exporter costs", cost.panels()),
    )
    numbers = count(1)
    for title, panels in rows:
        made = made.with_row(Row(title).id(next(numbers)))
        for panel in panels:
            made = made.with_panel(panel.id(next(numbers)))
    return json.dumps(json.loads(JSONEncoder(sort_keys=True).encode(made.build())), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python -m deploy.grafana.dashboard --write")
    FILE.write_text(dashboard())
