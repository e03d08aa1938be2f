# SPDX-License-Identifier: Apache-2.0
"""What is there for Kubernetes, against its schema, and against what the image and the program offer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ssllatency import __version__
from tests.deploy.rights import DAEMONSET, TOP


def validated(file: Path) -> subprocess.CompletedProcess[str]:
    command = [Path(sys.executable).with_name("kubernetes-validate"), "--strict", file]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def documents(name: str) -> list[dict[str, Any]]:
    yaml = pytest.importorskip("yaml")
    return list(yaml.safe_load_all((TOP / "deploy" / "kubernetes" / name).read_text()))


def test_kubernetes_accepts_it(tmp_path: Path) -> None:
    done = validated(DAEMONSET)
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(DAEMONSET.read_text().replace("hostPID:", "hostPid:"))
    assert validated(wrong).returncode != 0


def test_it_sees_the_node_and_writes_nothing_of_it() -> None:
    *_, daemonset = documents("daemonset.yaml")
    spec = daemonset["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    context = container["securityContext"]
    assert spec["hostPID"] is True
    assert not {"hostNetwork", "hostIPC"} & spec.keys()
    assert "privileged" not in context
    assert context["capabilities"]["drop"] == ["ALL"]
    assert (context["readOnlyRootFilesystem"], context["allowPrivilegeEscalation"]) == (True, False)
    mounts = {mount["name"]: mount.get("readOnly", False) for mount in container["volumeMounts"]}
    assert [volume["name"] for volume in spec["volumes"] if "hostPath" in volume and not mounts[volume["name"]]] == []


def test_its_image_is_of_this_version_and_its_port_is_the_same_everywhere() -> None:
    *_, daemonset = documents("daemonset.yaml")
    template = daemonset["spec"]["template"]
    (container,) = template["spec"]["containers"]
    (port,) = container["ports"]
    assert container["image"] == f"ssllatency:{__version__}"
    assert f"0.0.0.0:{port['containerPort']}" in container["args"]
    assert template["metadata"]["annotations"]["prometheus.io/port"] == str(port["containerPort"])
    (monitor,) = documents("podmonitor.yaml")
    assert [endpoint["port"] for endpoint in monitor["spec"]["podMetricsEndpoints"]] == [port["name"]]
    assert template["metadata"]["labels"].items() >= monitor["spec"]["selector"]["matchLabels"].items()
