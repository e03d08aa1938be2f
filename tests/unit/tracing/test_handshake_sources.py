# SPDX-License-Identifier: Apache-2.0
"""Which source a live view gets: one that shows something of what is there."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import cast

import pytest
from tests.unit.engines.attach.test_sites import image, probe

from ssllatency.engines.source import Ability
from ssllatency.probes.plan import OperationPlan, Role
from ssllatency.tracing import handshake_sources
from ssllatency.tracing.resolve import PlanSource, Resolved


@pytest.mark.parametrize(
    ("functions", "wanted"),
    [
        (("SSL_do_handshake", "SSL_read"), Ability.HANDSHAKES),
        (("rsa_ossl_private_encrypt",), Ability.HANDSHAKES | Ability.FUNCTIONS),
        ((), Ability.HANDSHAKES),
    ],
    ids=["libssl", "libcrypto alone", "nothing yet"],
)
def test_functions_are_measured_where_no_handshake_can_be_seen(
    monkeypatch: pytest.MonkeyPatch, functions: tuple[str, ...], wanted: Ability
) -> None:
    asked: list[Ability] = []
    monkeypatch.setattr(handshake_sources, "attach", lambda abilities, *_: asked.append(abilities) or ())
    planned = [OperationPlan(name, 0x100, 50, "", (probe(Role.ENTRY),)) for name in functions]
    images = (image(*planned),) if planned else ()
    resolved = Resolved(images, (), everyone=True, warnings=(), source=cast("PlanSource", None))
    handshake_sources.attach_useful(resolved, argparse.Namespace(), ExitStack(), functions=False)
    assert asked == [wanted]
