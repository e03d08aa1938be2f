# SPDX-License-Identifier: Apache-2.0
"""The pod of the chart as Helm renders it, run by podman: ready, scraped, exact about a server outside of it, and gone at the
end."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.deploy.test_chart import CHART, parsed
from tests.live.clients.counted import TLS_1_3, Client
from tests.live.conftest import certificates
from tests.live.servers.nginx import Nginx
from tests.packages.containers import NAME, podman
from tests.packages.test_chart_by_helm import helm
from tests.programs import needed
from tests.waiting import wait_for

__all__ = ["certificates"]

PORT, TIMES = 9743, 20
_GET = """
import sys, urllib.error, urllib.request
try:
    with urllib.request.urlopen(sys.argv[1], timeout=20) as answer:
        print(answer.status, answer.read().decode(), sep="\\n")
except urllib.error.URLError as error:
    print(getattr(error, "code", "nobody listens"))
"""
COUNT = re.compile(r'^ssllatency_handshake_duration_seconds_count\{.*outcome="success".*\} (\d+)$', re.MULTILINE)


def pod(pid: int, logs: Path) -> dict[str, Any]:
    """The pod that the chart's DaemonSet starts on a node, for one process. What podman 4.3 doesn't know is put into its own
    words: who fills in the node's name, the seccomp profile, and a node's folder of logs; probes are the test's."""
    repository, tag = NAME.rsplit(":", 1)
    values = {"image": {"repository": repository, "tag": tag}, "extraArgs": ["-p", str(pid)]}
    sets = [word for name, value in values.items() for word in ("--set-json", f"{name}={json.dumps(value)}")]
    made = parsed(helm("template", "ssllatency", CHART, "--namespace", "ssllatency", "--kube-version", "1.32.0", *sets))
    (template,) = (document["spec"]["template"] for document in made if document["kind"] == "DaemonSet")
    (container,) = template["spec"]["containers"]
    del container["ports"]  # of which none is the node's
    container["env"] = [{"name": "OTEL_RESOURCE_ATTRIBUTES", "value": "k8s.node.name=node-1"}]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container.pop(probe)["httpGet"]["port"] == "metrics"
    (folder,) = (volume["hostPath"] for volume in template["spec"]["volumes"] if "hostPath" in volume)
    folder["path"] = str(logs)
    template["metadata"]["annotations"]["seccomp.security.alpha.kubernetes.io/pod"] = "unconfined"
    template["metadata"]["name"] = "ssllatency"
    return {"apiVersion": "v1", "kind": "Pod", **template}


class Played:
    """The pod while it runs."""

    def __init__(self, command: tuple[str, ...], port: int) -> None:
        self._podman, self._port = command, port
        (pid,) = self.said("inspect", "--format", "{{.State.Pid}}", "ssllatency-export").split()
        self._inside = ("nsenter", f"--net=/proc/{pid}/ns/net", sys.executable, "-c", _GET)

    def said(self, *words: str) -> str:
        """What podman prints."""
        return subprocess.run([*self._podman, *words], capture_output=True, text=True, check=True, timeout=60).stdout

    def get(self, path: str) -> tuple[str, str]:
        """The status and the text of what it answers in its own network, as the kubelet and Prometheus would ask."""
        asked = [*self._inside, f"http://127.0.0.1:{self._port}{path}"]
        done = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=60)
        status, _, text = done.stdout.partition("\n")
        return status, text


@contextmanager
def played(command: tuple[str, ...], document: dict[str, Any], folder: Path) -> Iterator[Played]:
    """The pod runs within the block, in a network where nobody else is."""
    file = folder / "pod.json"
    file.write_text(json.dumps(document))
    done = subprocess.run(
        [*command, "kube", "play", "--network=none", file], capture_output=True, text=True, check=False, timeout=120
    )
    try:
        assert done.returncode == 0, done.stdout + done.stderr
        yield Played(command, PORT)
    finally:
        subprocess.run([*command, "kube", "down", file], capture_output=True, check=False, timeout=120)


def test_it_is_ready_and_counts(certificates: Path, tmp_path: Path) -> None:
    needed("catatonit", "nsenter")
    logs = tmp_path / "containers"
    logs.mkdir()
    with podman() as command, Nginx(certificates) as server:
        with played(command, pod(server.master_pid, logs), tmp_path) as running:
            wait_for(lambda: running.get("/-/ready")[0] == "200", 60.0)
            assert running.get("/-/healthy")[0] == "200"
            Client(server.port["rsa"], TLS_1_3).connect_times(TIMES)
            server.wait_idle()
            wait_for(lambda: sum(map(int, COUNT.findall(running.get("/metrics")[1]))) == TIMES)
        assert "ssllatency" not in running.said("ps", "--all")
