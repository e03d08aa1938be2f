# SPDX-License-Identifier: Apache-2.0
"""Handshakes of Go programs that were built in other ways than usual, each counted exactly against the program's own count."""

from __future__ import annotations

import pytest

from tests.live.commands.handshakes import Shakes
from tests.live.commands.trace import losses
from tests.live.go.test_go import BUILT, NEEDED
from tests.live.go.test_go_handshakes import of_role, started

pytestmark = pytest.mark.usefixtures("tracing")
FEW = "80"  # connections, a tenth of each kind of tests/go/counted.go
# shared: a library that a program in C has loaded. Those that `tools/for-tests/setup-go modes` has built, and the usual one.
MODES = ("race", "pgo", "fips", "static", "shared", "plugin")
PROGRAMS = [NEEDED[-1], *(f"mode-{mode}" for mode in MODES if (BUILT / f"mode-{mode}.made").is_file())]


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_handshake_is_counted_however_the_program_was_built(name: str) -> None:
    with started(name, FEW) as program, Shakes(program.pid, options=("--role", "any", "--by", "role")) as shakes:
        own = program.run()
    for role in ("server", "client"):
        succeeded, calls = of_role(shakes, role, "success"), own[f"{role}Handshake"]
        assert (len(succeeded), len(of_role(shakes, role))) == (calls["success"], calls["success"] + calls["failure"])
    servers = of_role(shakes, "server", "success")
    assert all({"private_key", "key_exchange", "callbacks"} <= single["parts_ns"].keys() for single in servers)
    assert losses(shakes.document) == {"left": own["serverHandshake"]["left"]}
    uses = [(use["operation"], use["key"], use["count"]) for use in shakes.document["handshakes"]["keys"]]
    assert uses == [("sign", "ECDSA P-256", len(servers))]
