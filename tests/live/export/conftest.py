# SPDX-License-Identifier: Apache-2.0
"""Leaves out what takes a program that only somebody who wants it builds."""

from __future__ import annotations

import pytest

from tests.prometheus.programs import WITH_OTLP, versions


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects tests of a Prometheus that isn't there."""
    if versions(WITH_OTLP):
        return
    wanting = [item for item in items if item.get_closest_marker("prometheus_with_otlp")]
    config.hook.pytest_deselected(items=wanting)
    items[:] = [item for item in items if item not in wanting]
