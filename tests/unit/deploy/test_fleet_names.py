# SPDX-License-Identifier: Apache-2.0
"""The names in docs/use/fleet.md are those of the metrics and attributes that there are."""

from __future__ import annotations

import re
from pathlib import Path

from ssllatency.export.metrics import families
from ssllatency.reports.diagnosis.failures import ALERTS, REASONS

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "use" / "fleet.md").read_text()
SECTION = PAGE.split("## Names that fleets know")[1].split("\n## ")[0]
ATTRIBUTES = {value for name, value in vars(families).items() if name.isupper() and isinstance(value, str)}


def names_in(pattern: str) -> set[str]:
    return set(re.findall(rf"`({pattern})(?:{{[^`]*)?`", SECTION))


def test_every_attribute_that_is_called_the_same_is_there() -> None:
    named = names_in(r"(?:tls|error|container|k8s)\.[a-z.]+")
    assert len(named) > 10
    assert named <= ATTRIBUTES


def test_every_metric_is_there() -> None:
    assert names_in(r"ssllatency\.[a-z._]+") <= set(families.BY_NAME)
    assert names_in(r"ssllatency_[a-z_]+") <= {family.prometheus_name for family in families.FAMILIES}


def test_every_reason_that_the_diagnosis_explains_has_its_result() -> None:
    """All but plain HTTP, key groups of other names, signature algorithms and encrypted ClientHellos: gRPC has none."""
    missing = {reason for reason in REASONS if f"`{reason}`" not in SECTION}
    assert missing == {
        "http request",
        "no shared group",
        "no common signature algorithms",
        "no suitable signature algorithm",
    }
    assert {alert for alert in ALERTS if f"`{alert}`" not in SECTION.lower()} == {"ech required"}
