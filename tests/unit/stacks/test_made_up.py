# SPDX-License-Identifier: Apache-2.0
"""A stack is a room and a line in the registry: in a copy of the package, one for a made-up library is planned, named and shown
in the outputs of commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures import made_up

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What is found out about the library, by part."""
    folder = tmp_path_factory.mktemp("made-up")
    environment = {**os.environ, "PYTHONPATH": str(made_up.package(folder))}
    command = [sys.executable, str(HERE / "made_up_outputs.py"), str(made_up.library(folder))]
    return json.loads(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout)


def test_its_file_is_recognised(said: dict[str, Any]) -> None:
    assert (said["facts"]["libraries"], said["facts"]["version"]) == (["libmadeup"], "madeup TLS 1.2.3")
    assert said["facts"]["obstacle"] == ""
    plan = said["plan"]
    assert (plan["kind"], plan["version"], plan["stack"]) == ("libmadeup", "madeup TLS 1.2.3", "made-up")


def test_its_calls_are_planned(said: dict[str, Any]) -> None:
    planned = {
        operation["operation"]: {probe["role"] for probe in operation["probes"]} for operation in said["plan"]["operations"]
    }
    assert planned.keys() == {"madeup_handshake", "madeup_read", "madeup_free"}
    assert planned.pop("madeup_free") == {"entry"}
    assert all(roles in ({"entry", "exit"}, {"return"}) for roles in planned.values())
    assert said["plan"]["missing"] == [{"operation": "madeup_flush", "reason": "not in this library"}]


def test_its_connections_are_read_by_its_accessors(said: dict[str, Any]) -> None:
    offsets = {name: offset for name, offset in said["plan"]["offsets"].items() if isinstance(offset, int)}
    assert offsets == {"rwstate": 24, "server": 28}
    assert said["kernel"] == 24
    assert said["handshake"]["labels"] == {"version": {"offsets": [32], "size": 4, "bits": 0}}


def test_its_handshakes_are_followed_by_its_own_calls(said: dict[str, Any]) -> None:
    plan = said["handshake"]
    assert [(call["phase"], call["callee"], call["operation"]) for call in plan["calls"]] == [
        ("private_key", "madeup_sign", "sign")
    ]
    assert {(call["phase"], call["callee"]) for call in plan["transport"]} == {("wait_peer", "madeup_fetch")}
    assert [(error["kind"], error["function"]) for error in plan["errors"]] == [("raise", "madeup_raise")]
    assert (plan["missing"], plan["state_machine"], plan["within_data"]) == ([], None, True)
    assert said["sites"] == {
        "watched": ["madeup_handshake", "madeup_read", "madeup_free"],
        "parts": ["PRIVATE_KEY"],
        "ends": 1,
        "errors": 1,
        "version_at": [32],
    }


def test_its_codes_have_names(said: dict[str, Any]) -> None:
    assert said["names"]["alerts"] == [[40, "no luck"]]


def test_targets_names_it(said: dict[str, Any]) -> None:
    assert "madeup TLS 1.2.3 shared yes" in said["targets"]


@pytest.mark.parametrize(("output", "texts"), [
    ("handshakes", ("private key", "bad luck", "no luck", "MADE_UP_CIPHER")),
    ("trace", ("madeup_read",)),
    ("page of handshakes", ("bad luck", "no luck", "madeup TLS 1.2.3")),
    ("page of calls", ("madeup_read", "madeup TLS 1.2.3")),
    ("metrics", ("bad luck", "MADE_UP_CIPHER", "madeup_read")),
])  # fmt: skip
def test_outputs_name_it(said: dict[str, Any], output: str, texts: tuple[str, ...]) -> None:
    assert [text for text in texts if text not in said[output]] == []
