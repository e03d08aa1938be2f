# SPDX-License-Identifier: Apache-2.0
"""The kubectl plugin: what it asks kubectl for, with one that only says what it was asked."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from typing import Any, ClassVar

import pytest

from ssllatency import __version__
from tests.deploy.rights import TOP
from tests.waiting import wait_for

KREW = TOP / "deploy" / "krew"
PLUGIN = KREW / "kubectl-ssllatency"
FAKE = """#!/bin/sh
printf '%s\\n' "$*" >>"$0.asked"
if [ "$1 $2" = "get pods" ]; then
  run=$(sed -n 's/.*--env=SSLLATENCY_RUN=\\([^ ]*\\).*/\\1/p' "$0.asked")
  printf 'node-debugger-node-7-bbbbb\\n--all %s \\n--all\\nweb-1\\nnode-debugger-x --all\\n' "$run"
  exit 0
fi
if [ "$1" = get ]; then
  [ "$3" != missing ] || { echo 'Error from server (NotFound): pods "missing" not found' >&2; exit 1; }
  [ "$3" != pending ] || { printf ' 11-22'; exit 0; }
  printf 'node-7 11-22'
  exit 0
fi
[ "$1" != debug ] || printf '%s\\n' "$@"
[ "$1" != debug ] || [ ! -e "${0%/*}/reads" ] || cat
[ "$1" != debug ] || [ ! -e "${0%/*}/fails" ] || exit 3
if [ "$1" = debug ] && [ -e "${0%/*}/stays" ]; then
  trap 'echo ended >>"$0.asked"; exit 143' TERM
  echo stays >>"$0.asked"
  while sleep 0.05 && [ -e "${0%/*}/stays" ]; do :; done
fi
"""


def environment(tmp_path: Path) -> dict[str, str]:
    fake = tmp_path / "kubectl"
    fake.write_text(FAKE)
    fake.chmod(0o755)
    return os.environ | {"KUBECTL": str(fake), "SSLLATENCY_IMAGE": "registry.example/tls:1"}


def run(tmp_path: Path, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PLUGIN, *arguments],
        env=environment(tmp_path),
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


class ApiServer(BaseHTTPRequestHandler):
    """As much of Kubernetes as lists pods."""

    pods: ClassVar[list[dict[str, Any]]] = []

    def do_GET(self) -> None:
        verbs = {"name": "pods", "singularName": "pod", "namespaced": True, "kind": "Pod", "verbs": ["get", "list"]}
        answers: dict[str, dict[str, Any]] = {
            "/api": {"kind": "APIVersions", "versions": ["v1"]},
            "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
            "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": [verbs]},
            "/api/v1/namespaces/default/pods": {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": self.pods},
        }
        answer = answers.get(self.path.partition("?")[0])
        body = json.dumps(answer or {}).encode()
        self.send_response(200 if answer else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def pod(name: str, *variables: dict[str, Any]) -> dict[str, Any]:
    container = {"name": "first", "image": "any", **({"env": [*variables]} if variables else {})}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}


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
        "delete pod -n shop --wait=false -- node-debugger-node-7-bbbbb"
    ]


def test_nothing_that_other_pods_say_is_printed(tmp_path: Path) -> None:
    """By kubectl itself, of pods whose environment has this run's value as a line, or elsewhere, or none."""
    kubectl = shutil.which("kubectl")
    if not kubectl:
        pytest.skip("kubectl isn't installed")
    run(tmp_path, "handshakes", "web-1")
    asked = (tmp_path / "kubectl.asked").read_text()
    value = re.findall(r"--env=SSLLATENCY_RUN=(\S+)", asked)[0]
    template = re.findall(r"-o (go-template=.*)", asked)[0]
    ours = "SSLLATENCY_RUN"
    ApiServer.pods = [
        pod("web-1"),
        pod("lines", {"name": ours, "value": f"x\n--all {value} "}, {"name": ours, "value": f"{value}\n--all"}),
        pod("elsewhere", {"name": "OTHER", "value": value}, {"name": ours}, {"name": ours, "valueFrom": {}}),
        pod("node-debugger-node-7-bbbbb", {"name": "OTHER"}, {"name": ours, "value": value}),
    ]
    with ThreadingTCPServer(("127.0.0.1", 0), ApiServer) as server:
        threading.Thread(target=server.serve_forever).start()
        reach = [
            f"--server=http://127.0.0.1:{server.server_address[1]}",
            "--kubeconfig=/dev/null",
            f"--cache-dir={tmp_path}/cache",
        ]
        command = [kubectl, *reach, "get", "pods", "-o", template]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        finally:
            server.shutdown()
    assert (done.stdout, done.returncode) == ("node-debugger-node-7-bbbbb\n", 0), done.stderr


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_to_it_alone_ends_kubectl_and_the_debugging_pod(tmp_path: Path, number: signal.Signals, status: int) -> None:
    (tmp_path / "stays").touch()
    asked = tmp_path / "kubectl.asked"
    # A shell can't trap what its parent ignores, as nohup has it.
    command = ["env", "--default-signal=HUP", PLUGIN, "handshakes", "web-1"]
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    with subprocess.Popen(command, env=environment(tmp_path), **streams) as process:
        wait_for(lambda: asked.exists() and "stays\n" in asked.read_text())
        process.send_signal(number)
        try:
            assert process.wait(30) == status
        finally:
            (tmp_path / "stays").unlink()  # ends kubectl in any case
    wait_for(lambda: "ended\n" in asked.read_text())
    assert "delete pod --wait=false -- node-debugger-node-7-bbbbb\n" in asked.read_text()


def test_kubectl_has_the_standard_input(tmp_path: Path) -> None:
    (tmp_path / "reads").touch()
    assert run(tmp_path, "handshakes", "web-1", given="typed\n").stdout.splitlines()[-1] == "typed"


def test_its_status_is_the_commands(tmp_path: Path) -> None:
    (tmp_path / "fails").touch()
    done = run(tmp_path, "handshakes", "web-1")
    assert done.returncode == 3
    assert "delete pod --wait=false -- node-debugger-node-7-bbbbb\n" in (tmp_path / "kubectl.asked").read_text()


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
