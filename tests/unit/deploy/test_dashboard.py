# SPDX-License-Identifier: Apache-2.0
"""The Grafana dashboard: it is what its generator makes, and each of its expressions has data in a real Prometheus. How
its panels look is in test_panels.py."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest
from tests.prometheus.server import Server

from deploy.grafana import dashboard
from ssllatency.export.metrics.families import FAMILIES, MetricKind

MADE = json.loads(dashboard.FILE.read_text())
PANELS = [panel for panel in MADE["panels"] if panel["type"] != "row"]
EXPRESSIONS = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]
VARIABLES = {"$__rate_interval": "10s", "$instance": ".+", "$service": "nginx.service"}
KINDS = {family.prometheus_name: family.kind for family in FAMILIES}
OF_PROMETHEUS = {"scrape_duration_seconds"}


def substituted(expression: str) -> str:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression
    return expression


def test_it_is_what_its_generator_makes() -> None:
    assert dashboard.FILE.read_text() == dashboard.dashboard(), "run make dashboard"


def test_it_shows_metrics_that_are_exported_and_all_of_them() -> None:
    queries = [variable["query"] for variable in MADE["templating"]["list"]]
    shown = set(re.findall(r"\b(ssllatency_\w+|scrape_\w+)", " ".join([*queries, *(text for _, text in EXPRESSIONS)])))
    assert shown == KINDS.keys() | OF_PROMETHEUS


def test_counters_and_histograms_are_shown_as_rates_and_gauges_are_not() -> None:
    for _, expression in EXPRESSIONS:
        for metric in set(re.findall(r"\b(ssllatency_\w+)", expression)) - {"ssllatency_targets_refused_total"}:
            is_rate = f"rate({metric}{{" in expression
            assert is_rate == (KINDS[metric] is not MetricKind.GAUGE) or metric.endswith("dropped_total"), expression


def test_panels_are_told_apart_and_overlap_nowhere() -> None:
    numbers = [panel["id"] for panel in MADE["panels"]]
    assert len(set(numbers)) == len(numbers)
    cells: set[tuple[int, int]] = set()
    for panel in MADE["panels"]:
        at = panel["gridPos"]
        own = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not own & cells, panel["title"]
        cells |= own
    assert all(panel["description"].endswith(".") for panel in PANELS)


def has_data(series: list[dict[str, Any]]) -> bool:
    """Whether there is a number, or a histogram that isn't empty."""
    numbers = [float(one["value"][1]) for one in series if "value" in one]
    return any(not math.isnan(number) for number in numbers) or any(
        float(one["histogram"][1]["count"]) for one in series if "histogram" in one
    )


def test_every_expression_has_data(scraped: Server) -> None:
    without = [(title, text) for title, text in EXPRESSIONS if not has_data(scraped.query(substituted(text)))]
    assert without == []
    assert len(EXPRESSIONS) > 50


@pytest.mark.parametrize("variable", [one["query"] for one in MADE["templating"]["list"] if one["type"] == "query"])
def test_the_variables_have_values(scraped: Server, variable: str) -> None:
    found = re.fullmatch(r"label_values\((?P<metric>.+), (?P<label>\w+)\)", variable)
    assert found
    values = {series["metric"].get(found["label"]) for series in scraped.query(substituted(found["metric"]))}
    assert values in ({"web1", "web2"}, {"nginx.service", "edge"})


def test_the_parts_of_the_mean_handshake_add_up_to_it(scraped: Server) -> None:
    (panel,) = (panel for panel in PANELS if panel["title"] == "The mean handshake")
    parts = [substituted(target["expr"]) for target in panel["targets"]]
    where = '{service="nginx.service", outcome="success"}'
    whole = f"sum(rate(ssllatency_handshake_duration_seconds{where}[10s]))"
    added = " + ".join(f"sum({part})" for part in parts)
    ratio = scraped.value(f"({added}) / scalar(histogram_sum({whole}) / histogram_count({whole}))")
    assert ratio == pytest.approx(1, rel=0.001)
