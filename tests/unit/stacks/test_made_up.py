# SPDX-License-Identifier: Apache-2.0
"""A stack is a room and a line in the registry: in a copy of the package, one for a made-up library is planned and named."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures import build

import ssllatency

HERE = Path(__file__).parent
LIST, LINE = "(OpenSsl(), BoringSsl())", "(OpenSsl(), BoringSsl(), MadeUp())"
IMPORT = "from ssllatency.stacks.made_up.stack import MadeUp\n"
ASKED = """
import json, sys
from ssllatency.elf.image import Image
from ssllatency.engines.attach.sites import library_record
from ssllatency.probes.cache.parts import FACTS, HANDSHAKE_PLAN, NAMES, PLAN, Settings
from ssllatency.stacks.registry import stack_named

image = Image.open(sys.argv[1])
said = {}
for part in (FACTS, PLAN, HANDSHAKE_PLAN, NAMES):
    values = json.loads(json.dumps(part.to_values(part.make(image, Settings()))))
    part.read(values, 1 << 20)
    said[part.name] = values
plan = PLAN.make(image, Settings())
said["kernel"] = library_record(plan.offsets, stack_named(plan.stack)).rwstate
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What is found out about the library, by part."""
    folder = tmp_path_factory.mktemp("made-up")
    package = folder / "python" / "ssllatency"
    shutil.copytree(Path(ssllatency.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(HERE / "made_up", package / "stacks" / "made_up", ignore=shutil.ignore_patterns("__pycache__"))
    registry = package / "stacks" / "registry.py"
    source = registry.read_text()
    assert source.count(LIST) == 1
    registry.write_text(
        source.replace(LIST, LINE).replace("from ssllatency.stacks.openssl", IMPORT + "from ssllatency.stacks.openssl")
    )
    library = build.library(folder, "libmadeup.so.1", [str(HERE / "made_up" / "made_up.c")])
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    command = [sys.executable, "-c", ASKED, library]
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
    assert planned.keys() == {"madeup_handshake", "madeup_read"}
    assert all(roles in ({"entry", "exit"}, {"return"}) for roles in planned.values())
    assert said["plan"]["missing"] == [{"operation": "madeup_flush", "reason": "not in this library"}]


def test_its_connections_are_read_by_its_accessors(said: dict[str, Any]) -> None:
    offsets = {name: offset for name, offset in said["plan"]["offsets"].items() if offset is not None}
    assert offsets == {"rwstate": 24, "server": 28}
    assert said["kernel"] == 24
    assert said["handshake"]["labels"] == {"version": {"offsets": [32], "size": 4}}


def test_its_codes_have_names(said: dict[str, Any]) -> None:
    assert said["names"]["alerts"] == [[40, "no luck"]]
