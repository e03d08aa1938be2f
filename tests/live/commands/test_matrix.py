# SPDX-License-Identifier: Apache-2.0
"""`ssllatency load --matrix`: every run's books agree, and an interrupted matrix ends up whole."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.live.commands.trace import PROGRAM
from tests.live.servers.nginx import Nginx, Settings

pytestmark = pytest.mark.usefixtures("tracing", "certificates")

TIMEOUT_S = 120.0
FACTORS = ("server", "tool", "key", "version", "cipher", "group", "client_certificate", "client_key", "resumption", "page")
EIGHT = """
seconds = 1
connections = 100
repeats = 1
warm_up = 0
[servers.web]
workers = 2
[factors]
tool = ["s_time", "h2load"]
key = ["RSA-2048", "ECDSA-P-256"]
resumption = ["new", "reuse"]
"""
MANY = """
connections = 100
repeats = 2
[servers.web]
[factors]
tool = "h2load"
key = ["ECDSA-P-256", "Ed25519"]
version = ["TLSv1.2", "TLSv1.3"]
group = ["X25519", "P-256"]
"""
ONE = """
connections = 1
repeats = 3
[servers.web]
[factors]
tool = "h2load"
"""
CERTIFICATES = """
seconds = 1
repeats = 1
warm_up = 0
[servers.web]
[factors]
group = "P-384"
client_certificate = ["none", "need"]
client_key = "RSA-2048"
"""
WANTED = """
seconds = 1
connections = 20
repeats = 1
warm_up = 0
[servers.web]
[servers.plain]
kind = "openssl"
[factors]
tool = ["s_time", "h2load"]
client_certificate = "want"
client_key = "none"
page = ["/", "none"]
[[exclude]]
server = "web"
tool = "s_time"
page = "none"
"""
OTHERS = """
seconds = 1
repeats = 1
warm_up = 0
[servers.plain]
kind = "openssl"
[servers.live]
kind = "running"
address = "127.0.0.1:{ecdsa}"
key = "ECDSA-P-256"
[servers.wrong]
kind = "running"
address = "127.0.0.1:{rsa}"
key = "ECDSA-P-256"
[factors]
key = "ECDSA-P-256"
page = "none"
"""


def command(text: str, output: Path) -> list[str]:
    file = output.with_suffix(".toml")
    file.write_text(text)
    return [str(PROGRAM), "load", "--exact", "--matrix", str(file), "-o", str(output)]


def run(text: str, output: Path, folder: Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command(text, output), capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
        env={**os.environ, "TMPDIR": str(folder)},
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    return done


def rows(output: Path) -> list[Mapping[str, str]]:
    """The runs, each with its books in order."""
    with output.open() as file:
        found = list(csv.DictReader(file))
    for row in found:
        assert int(row["handshakes"]) == int(row["connections"]) > 0
        assert row["not_successful"] == row["lost"] == "0"
    return found


def cells(found: list[Mapping[str, str]]) -> Counter[tuple[str, ...]]:
    return Counter((*(row[factor] for factor in FACTORS), row["repeat"]) for row in found)


def resumed(row: Mapping[str, str]) -> int:
    return round(float(row["resumed_share"]) * int(row["handshakes"]))


def test_two_by_two_by_two(tmp_path: Path, folder: Path) -> None:
    """The server counted what the client made, to the last connection, and resumed all that could be."""
    done = run(EIGHT, tmp_path / "runs.csv", folder)
    found = rows(tmp_path / "runs.csv")
    assert len(cells(found)) == len(found) == 8
    for row in found:
        full = {"s_time": 1, "h2load": 10}[row["tool"]] if row["resumption"] == "reuse" else int(row["handshakes"])
        assert resumed(row) == int(row["handshakes"]) - full
        assert float(row["key_exchange_mean_us"]) > 0
    assert {row["connections"] for row in found if row["tool"] == "h2load"} == {"100"}
    assert all(float(row["bytes_per_connection"]) > 64 for row in found if row["tool"] == "s_time")
    assert done.stdout.startswith("Main effects:\n")
    assert "8 runs of 8" in done.stderr


def test_each_run_has_its_own_extremes(tmp_path: Path, folder: Path) -> None:
    """Where there is one handshake all its percentiles are its time, to the nanosecond."""
    run(ONE, tmp_path / "runs.csv", folder)
    found = rows(tmp_path / "runs.csv")
    assert [row["handshakes"] for row in found] == ["1"] * 3
    for row in found:
        assert row["wall_p50_us"] == row["wall_p90_us"] == row["wall_p99_us"] == row["wall_mean_us"]


def test_client_certificates_and_groups(tmp_path: Path, folder: Path) -> None:
    """What the server saw is what the cells say, or the command would have failed."""
    run(CERTIFICATES, tmp_path / "runs.csv", folder)
    found = rows(tmp_path / "runs.csv")
    assert {(row["client_certificate"], row["client_key"]) for row in found} == {("none", "-"), ("need", "RSA-2048")}
    checked = {row["client_certificate"]: float(row["peer_verification_mean_us"]) for row in found}
    assert checked["need"] > checked["none"] == 0


def test_clients_without_the_certificate_that_is_wanted(tmp_path: Path, folder: Path) -> None:
    """A server can't ask without one that it would take."""
    run(WANTED, tmp_path / "runs.csv", folder)
    found = {(row["server"], row["tool"]) for row in rows(tmp_path / "runs.csv")}
    assert found == {("web", "s_time"), ("web", "h2load"), ("plain", "s_time")}


def test_interrupted_and_continued(tmp_path: Path, folder: Path) -> None:
    """Each cell is there once for each repeat, and what was there before is still."""
    output = tmp_path / "runs.csv"
    started = command(MANY, output)
    with subprocess.Popen(
        started, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": str(folder)}
    ) as it:
        while not output.exists() or output.read_bytes().count(b"\n") < 5:
            assert it.poll() is None
            time.sleep(0.05)
        it.send_signal(signal.SIGINT)
        _, said = it.communicate(timeout=TIMEOUT_S)
    assert it.returncode == 1
    assert b"The same command goes on where this one ended." in said
    before = output.read_bytes()
    assert 4 <= before.count(b"\n") - 1 < 16
    done = run(MANY, output, folder)
    assert output.read_bytes().startswith(before)
    assert set(cells(rows(output)).values()) == {1}
    assert len(rows(output)) == 16
    assert "runs there already" in done.stderr
    again = run(MANY, output, folder)
    assert "0 runs to make" in again.stderr
    assert again.stdout == done.stdout
    assert "another matrix" in run(MANY.replace("= 100", "= 99"), output, folder, status=1).stderr


def test_other_servers(tmp_path: Path, folder: Path, certificates: Path) -> None:
    """s_server, and one that runs already; one that isn't what the file says it is fails."""
    with Nginx(certificates, Settings()) as server:
        done = run(OTHERS.format(**server.port), tmp_path / "runs.csv", folder, status=1)
        assert server.wait_idle().active == 0
    assert [row["server"] for row in sorted(rows(tmp_path / "runs.csv"), key=lambda row: row["server"])] == ["live", "plain"]
    assert "wrong, s_time" in done.stderr
    assert "something else: key: RSA-2048 in" in done.stderr
    assert "1 cell failed; the next time it is tried again." in done.stderr


def test_servers_that_do_not_start(tmp_path: Path, folder: Path) -> None:
    broken = EIGHT.replace("workers = 2", 'main = ["no_such_line;"]')
    done = run(broken, tmp_path / "runs.csv", folder, status=1)
    assert "nginx didn't start: " in done.stderr
    assert 'unknown directive "no_such_line"' in done.stderr
    folder.chmod(0o700)
    done = run(EIGHT, tmp_path / "runs.csv", folder, status=1)
    assert "set TMPDIR to a folder that all users may enter" in done.stderr
