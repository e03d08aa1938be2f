# SPDX-License-Identifier: Apache-2.0
"""The kubectl plugin: what it asks kubectl for, with one that only says what it was asked."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ssllatency import __version__
from tests.deploy.rights import TOP

KREW = TOP / "deploy" / "krew"
PLUGIN = KREW / "kubectl-ssllatency"
FAKE = """#!/bin/sh
printf '%s\\n' "$*" >>"$0.asked"
if [ "$1 $2" = "get pods" ]; then
  run=$(sed -n 's/.*--env=SSLLATENCY_RUN=\\([^ ]*\\).*/\\1/p' "$0.asked")
  printf 'web-1 \\nnode-debugger-node-7-aaaaa other\\nnode-debugger-node-7-bbbbb x %s y\\n' "$run"
  exit 0
fi
if [ "$1" = get ]; then
  [ "$3" != missing ] || { echo 'Error from server (NotFound): pods "missing" not found' >&2; exit 1; }
  [ "$3" != pending ] || { printf ' 11-22'; exit 0; }
  printf 'node-7 11-22'
  exit 0
fi
[ "$1" != debug ] || printf '%s\\n' "$@"
[ "$1" != debug ] || [ ! -e "${0%/*}/fails" ] || exit 3
"""


def run(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    fake = tmp_path / "kubectl"
    fake.write_text(FAKE)
    fake.chmod(0o755)
    environment = os.environ | {"KUBECTL": str(fake), "SSLLATENCY_IMAGE": "registry.example/tls:1"}
    command = [PLUGIN, *arguments]
    return subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=30
    )


def test_it_debugs_the_pods_node_and_traces_that_pod_alone(tmp_path: Path) -> None:
    done = run(tmp_path, "handshakes", "web-1", "-n", "shop", "--", "-d", "10", "--by", "sni peer")
    assert done.returncode == 0, done.stderr
    asked = done.stdout.splitlines()
    assert asked[:4] == ["debug", "node/node-7", "-n", "shop"]
    assert {"-i", "--profile=sysadmin", "--image=registry.example/tls:1"} <= set(asked)
    assert "-t" not in asked  # standard input is no terminal
    assert asked[asked.index("--") + 1 :] == ["ssllatency", "handshakes", "--pod", "11-22", "-d", "10", "--by", "sni peer"]


@pytest.mark.parametrize("more", [[], ["--", "--fail-if", "failure > 1%"]])
def test_the_debugging_pod_is_deleted_and_no_other(tmp_path: Path, more: list[str]) -> None:
    done = run(tmp_path, "handshakes", "web-1", "-n", "shop", *more)
    assert done.returncode == 0, done.stderr
    asked = (tmp_path / "kubectl.asked").read_text().splitlines()
    assert [line for line in asked if line.startswith("delete")] == [
        "delete pod node-debugger-node-7-bbbbb -n shop --wait=false"
    ]


def test_its_status_is_the_commands(tmp_path: Path) -> None:
    (tmp_path / "fails").touch()
    done = run(tmp_path, "handshakes", "web-1")
    assert done.returncode == 3
    assert "delete pod node-debugger-node-7-bbbbb --wait=false" in (tmp_path / "kubectl.asked").read_text()


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["handshakes"], 2, "kubectl ssllatency COMMAND POD"),
        (["export", "web-1"], 2, "export is none of handshakes"),
        (["handshakes", "web-1", "-d", "10"], 2, "options of ssllatency follow --"),
        (["handshakes", "web-1", "-n"], 2, "-n needs a value"),
        (["handshakes", "missing"], 1, "not found"),
        (["handshakes", "pending"], 1, "pending runs on no node yet"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, arguments: list[str], status: int, words: str) -> None:
    done = run(tmp_path, *arguments)
    assert done.returncode == status
    assert words in done.stderr


def test_help_says_what_to_type(tmp_path: Path) -> None:
    done = run(tmp_path, "--help")
    assert done.returncode == 0, done.stderr
    assert "kubectl ssllatency handshakes web-7f9c -n shop" in done.stdout


def test_its_manifest_is_as_krew_wants_it() -> None:
    yaml = pytest.importorskip("yaml")
    manifest = yaml.safe_load((KREW / "ssllatency.yaml").read_text())
    assert (manifest["apiVersion"], manifest["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    spec = manifest["spec"]
    assert spec["version"] == f"v{__version__}"
    assert len(spec["shortDescription"]) <= 50
    (platform,) = spec["platforms"]
    assert platform["bin"] == PLUGIN.name == f"kubectl-{manifest['metadata']['name']}"
    assert f"ssllatency:{__version__}" in PLUGIN.read_text()
