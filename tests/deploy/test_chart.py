# SPDX-License-Identifier: Apache-2.0
"""The Helm chart, rendered: with its own values it is the plain DaemonSet, and each value does what it says."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ssllatency import __version__
from tests import programs
from tests.deploy.rights import DAEMONSET, TOP
from tests.deploy.test_daemonset import documents, validated

CHART = TOP / "deploy" / "helm" / "ssllatency"


@pytest.fixture(scope="module")
def renderer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that renders, built once."""
    program = tmp_path_factory.mktemp("helm") / "render"
    command = [programs.path("go"), "build", "-o", program, Path(__file__).parent / "helm" / "render.go"]
    subprocess.run(command, check=True, cwd=program.parent, timeout=120)
    return program


def parsed(text: str) -> list[dict[str, Any]]:
    yaml = pytest.importorskip("yaml")
    return [document for document in yaml.safe_load_all(text) if document]


def rendered(renderer: Path, **values: object) -> str:
    """The chart with these values instead of its own."""
    chart, own = (parsed((CHART / name).read_text())[0] for name in ("Chart.yaml", "values.yaml"))
    assert values.keys() <= own.keys()
    release = {"Name": "tls", "Namespace": "monitoring", "Service": "Helm"}
    objects = {"Release": release, "Chart": {"AppVersion": chart["appVersion"]}, "Values": {**own, **values}}
    command = [renderer, CHART / "templates"]
    return subprocess.run(command, input=json.dumps(objects), capture_output=True, text=True, check=True, timeout=60).stdout


def kinds(renderer: Path, **values: object) -> dict[str, dict[str, Any]]:
    return {document["kind"]: document for document in parsed(rendered(renderer, **values))}


def container_of(daemonset: Mapping[str, Any]) -> dict[str, Any]:
    (container,) = daemonset["spec"]["template"]["spec"]["containers"]
    return dict(container)


def test_with_its_own_values_it_is_the_plain_daemonset(renderer: Path) -> None:
    made = kinds(renderer)
    assert made.keys() == {"ServiceAccount", "DaemonSet"}
    plain = documents(DAEMONSET.name)[-1]["spec"]
    spec = made["DaemonSet"]["spec"]
    spec["template"]["spec"]["serviceAccountName"] = "ssllatency"
    assert spec["template"]["spec"] == plain["template"]["spec"]
    assert spec["template"]["metadata"]["annotations"] == plain["template"]["metadata"]["annotations"]
    assert spec["updateStrategy"] == plain["updateStrategy"]
    assert spec["template"]["metadata"]["labels"].items() >= spec["selector"]["matchLabels"].items()


def test_kubernetes_accepts_all_of_it(renderer: Path, tmp_path: Path) -> None:
    file = tmp_path / "rendered.yaml"
    file.write_text(rendered(renderer, networkPolicy={"enabled": True, "from": [{"podSelector": {}}]}))
    done = validated(file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_value_does_what_it_says(renderer: Path) -> None:
    made = kinds(
        renderer,
        image={"repository": "registry.example/tls", "tag": "7", "pullPolicy": "Always"},
        budget="1%",
        extraArgs=["--comm", "nginx"],
        otlpEndpoint="http://collector:4318",
        resourceAttributes="deployment.environment.name=prod",
        port=9000,
        labels={"team": "edge"},
        podLabels={"tier": "1"},
        podAnnotations={"note": "x: y"},
        priorityClassName="system-node-critical",
        imagePullSecrets=[{"name": "registry"}],
        podMonitor={"enabled": True, "interval": "30s", "labels": {"release": "prometheus"}},
        networkPolicy={"enabled": True, "from": [{"podSelector": {}}]},
    )
    pod = made["DaemonSet"]["spec"]["template"]
    container = container_of(made["DaemonSet"])
    assert container["image"] == "registry.example/tls:7"
    assert container["imagePullPolicy"] == "Always"
    assert container["args"] == ["export", "--listen", "0.0.0.0:9000", "--budget", "1%", "--comm", "nginx"]
    assert container["ports"] == [{"name": "metrics", "containerPort": 9000}]
    environment = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert environment["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector:4318"
    assert environment["OTEL_RESOURCE_ATTRIBUTES"] == "k8s.node.name=$(NODE_NAME),deployment.environment.name=prod"
    assert pod["metadata"]["labels"].items() >= {"team": "edge", "tier": "1"}.items()
    assert pod["metadata"]["annotations"].items() >= {"note": "x: y", "prometheus.io/port": "9000"}.items()
    assert pod["spec"]["priorityClassName"] == "system-node-critical"
    assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    assert made["PodMonitor"]["spec"]["podMetricsEndpoints"][0]["interval"] == "30s"
    assert made["PodMonitor"]["metadata"]["labels"]["release"] == "prometheus"
    assert made["NetworkPolicy"]["spec"]["ingress"][0]["ports"] == [{"protocol": "TCP", "port": "metrics"}]


def test_its_notes_say_what_to_type_next(renderer: Path) -> None:
    text = rendered(renderer, port=9800)
    assert "#   kubectl -n monitoring port-forward daemonset/tls 9800\n" in text
    assert "http://127.0.0.1:9800/metrics" in text


def test_its_version_is_the_programs() -> None:
    (chart,) = parsed((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__
