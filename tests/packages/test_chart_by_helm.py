# SPDX-License-Identifier: Apache-2.0
"""The chart by Helm itself, which tools/for-tests/setup-helm builds."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.deploy.test_chart import CHART, parsed
from tests.deploy.test_daemonset import DAEMONSET, TOP

HELM = TOP / "build" / "helm" / "helm"


def helm(*words: str | Path) -> str:
    if not HELM.exists():
        pytest.skip("no Helm: run tools/for-tests/setup-helm")
    done = subprocess.run([HELM, *words], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_finds_nothing_to_complain_of() -> None:
    assert "1 chart(s) linted, 0 chart(s) failed" in helm("lint", "--strict", CHART)


def test_it_renders_the_plain_daemonset() -> None:
    made = parsed(helm("template", "ssllatency", CHART, "--namespace", "ssllatency", "--kube-version", "1.32.0"))
    daemonset = next(document for document in made if document["kind"] == "DaemonSet")
    plain = parsed(DAEMONSET.read_text())[-1]
    assert daemonset["spec"]["template"]["spec"] == plain["spec"]["template"]["spec"]


def test_it_packs(tmp_path: Path) -> None:
    helm("package", CHART, "--destination", tmp_path)
    assert len(list(tmp_path.glob("ssllatency-*.tgz"))) == 1
