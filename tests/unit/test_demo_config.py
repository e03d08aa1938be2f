# SPDX-License-Identifier: Apache-2.0
"""The parts of tools/demo that need no tracing: its nginx configuration, its ports, its children."""

from __future__ import annotations

import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

DEMO = Path(__file__).resolve().parents[2] / "tools" / "demo"


@pytest.fixture(scope="module")
def demo() -> dict[str, Any]:
    return runpy.run_path(str(DEMO), run_name="demo")


def test_ports_differ_and_are_free(demo: dict[str, Any]) -> None:
    ports = demo["free_ports"](5)
    assert len(set(ports)) == 5
    assert all(1024 <= port < 65536 for port in ports)
    assert not any(demo["answers"](port) for port in ports)


@pytest.mark.parametrize("as_root", [True, False])
def test_the_configuration_stays_in_its_folder(demo: dict[str, Any], tmp_path: Path, as_root: bool) -> None:
    text = demo["nginx_conf"](tmp_path, {"RSA-2048": 4433, "ECDSA-P-256": 4434}, as_root)
    assert text.startswith("user root;\n") == as_root
    assert "listen 127.0.0.1:4433 ssl; ssl_certificate RSA-2048.crt; ssl_certificate_key RSA-2048.key;" in text
    assert "listen 127.0.0.1:4434 ssl; ssl_certificate ECDSA-P-256.crt; ssl_certificate_key ECDSA-P-256.key;" in text
    assert [word for word in text.replace(";", " ").split() if word.startswith("/") and str(tmp_path) not in word] == []


def test_nginx_takes_the_configuration_and_the_certificates(demo: dict[str, Any], tmp_path: Path) -> None:
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if not (nginx and shutil.which("openssl")):
        pytest.skip("no nginx or no openssl: apt-get install nginx openssl")
    for name, key in demo["CERTIFICATES"].items():
        demo["make_certificate"](tmp_path, name, key)
    ports = dict(zip(demo["CERTIFICATES"], demo["free_ports"](2), strict=True))
    (tmp_path / "nginx.conf").write_text(demo["nginx_conf"](tmp_path, ports, False))
    command = [nginx, "-t", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    for name, kind in (("RSA-2048", "2048 bit"), ("ECDSA-P-256", "prime256v1")):
        shown = subprocess.run(
            ["openssl", "x509", "-noout", "-text", "-in", tmp_path / f"{name}.crt"], capture_output=True, text=True, check=True
        )
        assert kind in shown.stdout


def test_a_child_is_ended_with_the_block_and_with_an_error(demo: dict[str, Any]) -> None:
    with demo["running"](["sleep", "60"]) as child:
        assert child.poll() is None
    assert child.returncode == -15
    with pytest.raises(ZeroDivisionError), demo["running"](["sleep", "60"]) as child:
        raise ZeroDivisionError
    assert child.returncode == -15


def test_a_child_that_has_ended_keeps_its_status(demo: dict[str, Any]) -> None:
    with demo["running"](["false"]) as child:
        child.wait(10)
    assert child.returncode == 1
