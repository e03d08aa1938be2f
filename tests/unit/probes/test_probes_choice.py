# SPDX-License-Identifier: Apache-2.0
"""The part of a plan that a user names."""

from __future__ import annotations

import pytest

from ssllatency.probes.choice import chosen
from ssllatency.probes.plan import FilePlan, MissingOperation, OperationPlan

NAMES = ("SSL_do_handshake", "SSL_read", "SSL_read_ex", "SSL_free", "RSA_sign")
PLAN = FilePlan(
    "/lib/libssl.so.3",
    "",
    "",
    "libssl",
    tuple(OperationPlan(name, 0, 1, "", ()) for name in NAMES),
    (MissingOperation("SSL_write", "why"), MissingOperation("SSL_read_early_data", "why")),
)


@pytest.mark.parametrize(
    ("patterns", "operations", "missing"),
    [
        (["SSL_read"], ["SSL_read", "SSL_free"], []),
        (["SSL_read*"], ["SSL_read", "SSL_read_ex", "SSL_free"], ["SSL_read_early_data"]),
        (["RSA_*", "SSL_d?_*"], ["SSL_do_handshake", "SSL_free", "RSA_sign"], []),
        (["ssl_read"], [], []),
        (["SSL_free"], [], []),
        (["SSL_w*"], [], ["SSL_write"]),
        (["*"], list(NAMES), ["SSL_write", "SSL_read_early_data"]),
    ],
)
def test_only_what_a_pattern_matches_is_kept(patterns: list[str], operations: list[str], missing: list[str]) -> None:
    part = chosen(PLAN, patterns)
    assert [one.operation for one in part.operations] == operations
    assert [one.operation for one in part.missing] == missing
    assert (part.path, part.offsets) == (PLAN.path, PLAN.offsets)
