# SPDX-License-Identifier: Apache-2.0
"""The dashboard's panels, drawn of what a real Prometheus answers about an incident that is planted on one of two hosts: no
panel is empty, series can be told apart, shares are shares, and the incident is to be seen."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.prometheus.drawing import Drawn, bases, buckets_of, draw, series_of, shown
from tests.prometheus.exporters import exporters
from tests.prometheus.server import Server, prometheus, scraping
from tests.prometheus.traffic import Host

from deploy.grafana import dashboard

pytestmark = pytest.mark.slow
PANELS = [panel for panel in json.loads(dashboard.FILE.read_text())["panels"] if panel["type"] != "row"]
VARIABLES = {"$__rate_interval": "3s", "$instance": ".+", "$service": "nginx.service"}
INTERVAL_S, NORMAL_S, TROUBLED_S = 0.5, 4.0, 5.5
SETTLED_S = 3.5  # after the beginning: then rates are of the incident alone
ENOUGH = "count(up) == 2 and min(sum_over_time(up[3s])) > 3"
ONE_OF_EACH_KIND = ("Services", "Handshake latency", "CPU that tracing takes, by who pays for it")
MOST_SERIES = 24  # in one panel: more can't be told apart


class Incident(NamedTuple):
    """What each panel shows, by its number, and when the incident began, by the wall clock."""

    data: dict[int, Any]
    began_s: float

    def means(self, title: str, name: str) -> tuple[float, float]:
        """The mean of a series before the incident, and once windows of rates hold nothing else."""
        (number,) = (panel["id"] for panel in PANELS if panel["title"] == title)
        (series,) = (series for series in self.data[number] if series.name == name)
        parts = (
            [value for at, value in series.points if at <= self.began_s],
            [value for at, value in series.points if at >= self.began_s + SETTLED_S],
        )
        before, later = (sum(values) / len(values) if values else 0.0 for values in parts)
        return before, later


def substituted(expression: str) -> str:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def rows_of(server: Server, panel: dict[str, Any]) -> list[list[str]]:
    """A table's rows: of each query one number a service."""
    units = {one["matcher"]["options"]: one["properties"][0]["value"] for one in panel["fieldConfig"]["overrides"]}
    answers = [server.query(substituted(target["expr"])) for target in panel["targets"]]
    found = [{one["metric"]["service"]: float(one["value"][1]) for one in answer} for answer in answers]
    services = sorted({service for answer in found for service in answer})
    cells = [
        [shown(answer.get(service, float("nan")), unit) for answer, unit in zip(found, units.values(), strict=True)]
        for service in services
    ]
    return [["service", *units], *([service, *row] for service, row in zip(services, cells, strict=True))]


def data_of(server: Server, panel: dict[str, Any], start_s: float, end_s: float) -> Any:
    if panel["type"] == "table":
        return rows_of(server, panel)
    answers = [
        (target, server.query_range(substituted(target["expr"]), start_s, end_s, INTERVAL_S)) for target in panel["targets"]
    ]
    if panel["type"] == "heatmap":
        return [bucket for _, answer in answers for bucket in buckets_of(answer)]
    return [series for target, answer in answers for series in series_of(answer, target["legendFormat"], target["expr"])]


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> Incident:
    hosts = {name: Host(name, seed, shakes=15) for seed, name in enumerate(("web1", "web2"))}
    paths = {name: f"/metrics/{name}" for name in hosts}
    folder = tmp_path_factory.mktemp("incident")
    with (
        exporters({paths[name]: host.read for name, host in hosts.items()}) as address,
        prometheus(folder, scraping(address, paths, "500ms")) as server,
    ):
        server.wait_for(lambda: bool(server.query("count(up) == 2")))
        start_s = time.time()
        time.sleep(NORMAL_S)
        began_s = time.time()
        hosts["web1"].troubled = True
        time.sleep(TROUBLED_S)
        server.wait_for(lambda: bool(server.query(ENOUGH)))
        end_s = time.time()
        data = {panel["id"]: data_of(server, panel, start_s, end_s) for panel in PANELS}
    kept = os.environ.get("SSLLATENCY_PICTURES")  # a picture of all takes seconds
    picture = Path(kept or folder) / "dashboard.png"
    draw(picture, [panel for panel in PANELS if kept or panel["title"] in ONE_OF_EACH_KIND], data)
    assert picture.stat().st_size > 20_000
    return Incident(data, began_s)


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_it_is_drawn(incident: Incident, panel: dict[str, Any]) -> None:
    data = incident.data[panel["id"]]
    assert data
    if panel["type"] != "timeseries":
        return
    drawn: list[Drawn] = data
    assert {series.expression for series in drawn} == {target["expr"] for target in panel["targets"]}, "a query has no series"
    names = Counter(series.name for series in drawn)
    assert {name: number for name, number in names.items() if number > 1 or not name} == {}, "which is which?"
    assert len(drawn) <= MOST_SERIES
    if panel["fieldConfig"]["defaults"]["unit"] == "percentunit":
        outside = {(series.name, value) for series in drawn for _, value in series.points if not 0 <= value <= 1.0001}
        assert outside == set()


@pytest.mark.parametrize(
    ("title", "name", "times"),
    [
        ("Percentiles of handshakes", "p99", 3),
        ("Share of handshakes that failed or were abandoned", "nginx.service", 2),
        ("Accept queues that were full", "web1", 10),
        ("Losses", "map_full", 10),
    ],
)
def test_the_incident_is_to_be_seen(incident: Incident, title: str, name: str, times: float) -> None:
    before, later = incident.means(title, name)
    assert later > times * before


def test_what_costs_are_compared_with_is_no_part_of_them(incident: Incident) -> None:
    (panel,) = (panel for panel in PANELS if panel["title"] == "CPU that tracing takes, by who pays for it")
    drawn = incident.data[panel["id"]]
    upon = {series.name: base for series, base in zip(drawn, bases(panel, drawn), strict=True)}
    assert upon["1 % of the traced processes' own"] == {}
    assert upon["traced"]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0123, "s", "12.3 ms"),
        (2.5e-7, "s", "250 ns"),
        (0, "s", "0 s"),
        (0.25, "percentunit", "25%"),
        (1234, "ops", "1.23k ops/s"),
        (4100, "decbytes", "4.1 kB"),
        (12, "short", "12"),
    ],
)
def test_a_value_is_shown_in_its_unit(value: float, unit: str, text: str) -> None:
    assert shown(value, unit) == text
