# SPDX-License-Identifier: Apache-2.0
"""Panels and variables as the dashboard uses them, made with grafana-foundation-sdk."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as dashboards
from grafana_foundation_sdk.builders import heatmap, prometheus, table, timeseries
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

SECONDS, SHARE, A_SECOND, CORES, COUNT, BYTES = "s", "percentunit", "ops", "short", "short", "decbytes"
SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_HEIGHT = 8
Query = tuple[str, str]  # an expression, and how its series are called


def empty_dashboard(title: str, uid: str, description: str) -> dashboards.Dashboard:
    """One without panels, and without variables but the data source's."""
    source = dashboards.DatasourceVariable("datasource").label("Data source").type("prometheus")
    return (
        dashboards.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags(["tls", "ssllatency"])
        .refresh("1m")
        .time("now-3h", "now")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(source)
    )


def variable(name: str, label: str, query: str, *, several: bool) -> dashboards.QueryVariable:
    """A choice of the values of a label: of `several`, with "all", or of one."""
    made = dashboards.QueryVariable(name).label(label).query(query).datasource(SOURCE)
    made = made.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_ASC)
    return made.multi(True).include_all(True).all_value(".+") if several else made


def lines(title: str, description: str, unit: str, *queries: Query, span: int = 12) -> timeseries.Panel:
    """Series over time."""
    panel = timeseries.Panel().fill_opacity(8).min(0)  # else Grafana begins its axis at the least value, and noise looks large
    return _with_queries(_with_head(panel, title, description, span).unit(unit), queries)


def stacked(title: str, description: str, unit: str, *queries: Query, span: int = 12, beside: str = "") -> timeseries.Panel:
    """Series that add up, one upon the other; `beside`: one that doesn't, to compare them with."""
    panel = lines(title, description, unit, *queries, span=span).fill_opacity(60)
    if beside:
        alone = {"custom.stacking": {"mode": "none"}, "custom.fillOpacity": 0}
        panel = panel.override_by_name(beside, [DynamicConfigValue(id_val=name, value=value) for name, value in alone.items()])
    return panel.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL))


def heat(title: str, description: str, expression: str, *, span: int = 12) -> heatmap.Panel:
    """A native histogram over time; Grafana takes its buckets as they are."""
    query = prometheus.Dataquery().expr(expression).format(PromQueryFormat.HEATMAP).range().ref_id("A").datasource(SOURCE)
    colours = heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Spectral").steps(64)
    panel = _with_head(heatmap.Panel(), title, description, span).calculate(False).color(colours).show_legend()
    return panel.y_axis(heatmap.YAxisConfig().unit(SECONDS)).with_target(query)


def rows_by(label: str, title: str, description: str, columns: Iterable[tuple[str, str, str]]) -> table.Panel:
    """A table with a row for each value of a label. Each column has its title, its unit and its expression."""
    columns = list(columns)
    panel = _with_head(table.Panel(), title, description, 24)
    names: dict[str, Any] = {}
    for number, (name, unit, expression) in enumerate(columns):
        letter = chr(ord("A") + number)
        names[f"Value #{letter}"] = name
        query = prometheus.Dataquery().expr(expression).format(PromQueryFormat.TABLE).instant().ref_id(letter)
        panel = panel.with_target(query.datasource(SOURCE))
        panel = panel.override_by_name(name, [DynamicConfigValue(id_val="unit", value=unit)])
    order = {name: number for number, name in enumerate([label, *names])}
    options = {"excludeByName": {"Time": True}, "indexByName": order, "renameByName": names}
    panel = panel.with_transformation(DataTransformerConfig(id_val="merge", options={}))
    return panel.with_transformation(DataTransformerConfig(id_val="organize", options=options))


def _with_head(panel: Any, title: str, description: str, span: int) -> Any:
    return panel.title(title).description(description).span(span).height(_HEIGHT).datasource(SOURCE)


def _with_queries(panel: Any, queries: Iterable[Query]) -> Any:
    for number, (expression, legend) in enumerate(queries):
        query = prometheus.Dataquery().expr(expression).legend_format(legend).range().ref_id(chr(ord("A") + number))
        panel = panel.with_target(query.datasource(SOURCE))
    return panel
