# SPDX-License-Identifier: Apache-2.0
"""The filter of the live view: by service, pod, namespace and name, in every view."""

from __future__ import annotations

import pytest

from ssllatency.model.live.row_filter import RowFilter
from ssllatency.model.live.rows import LiveRow

SERVICES = {17: "shop/web-7f9c/nginx", 18: "nginx.service", 19: "web/api-1/envoy"}
ROWS = [
    LiveRow("nginx(17)", 1.0, 1, 0, pids=frozenset({17})),
    LiveRow("nginx(18)", 1.0, 1, 0, pids=frozenset({18})),
    LiveRow("envoy(19)", 1.0, 1, 0, pids=frozenset({19})),
    LiveRow("other", 1.0, 1, 0),
]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", [0, 1, 2, 3]),
        ("NGINX", [0, 1]),
        ("web", [0, 2]),  # by their services, though no name has it
        ("pod:web", [0]),
        ("namespace:web", [2]),
        ("service:nginx", [0, 1]),
        ("service:nginx.service", [1]),
        ("name:nginx", [0, 1]),
        ("name:web", []),
        ("nginx namespace:shop", [0]),
        ("other", [3]),
        ("nothing:web", []),
    ],
)
def test_rows_are_kept(text: str, kept: list[int]) -> None:
    wanted = RowFilter.of(text)
    assert [number for number, row in enumerate(ROWS) if wanted.matches(row, SERVICES)] == kept
