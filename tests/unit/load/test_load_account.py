# SPDX-License-Identifier: Apache-2.0
"""As whom load generators run, and what of their command lines is kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ssllatency.load.account import Account, _may_change, of_tools
from ssllatency.load.credentials import without_credentials
from ssllatency.load.figures import LoadError
from ssllatency.load.run import run
from ssllatency.load.tools.choice import TOOLS, report_of

SECRETS = ("hunter2", "c2VjcmV0", "s3ss10n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes to another user")
@pytest.mark.parametrize("sudo", [True, False])
def test_under_root_a_tool_has_nothing_of_roots(monkeypatch: pytest.MonkeyPatch, sudo: bool) -> None:
    for name in ("SUDO_UID", "SUDO_GID"):
        monkeypatch.setenv(name, "1234") if sudo else monkeypatch.delenv(name, raising=False)
    script = "id -u; id -g; id -G; grep -E '^(CapPrm|CapEff|NoNewPrivs):' /proc/self/status"
    output = run(["/bin/sh", "-c", script], timeout_s=30, account=of_tools())
    uid, gid, groups, *rest = output.stdout.split("\n")
    wanted = "1234" if sudo else "65534"
    assert (uid, gid, groups) == (wanted, wanted, wanted)
    assert [line.split()[1].strip("0") for line in rest if line] == ["", "", "1"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes to another user")
def test_a_user_that_was_named() -> None:
    assert of_tools("root") is None
    account = of_tools("daemon")
    assert account
    assert run(["id", "-un"], timeout_s=30, account=account).stdout == "daemon\n"
    with pytest.raises(LoadError, match="no user no-such-user"):
        of_tools("no-such-user")


def test_a_user_who_is_not_root_stays_who_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("SUDO_UID", "0")
    assert of_tools() is None
    with pytest.raises(LoadError, match="Only root"):
        of_tools("root")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes to another user")
def test_what_that_user_may_not_run_is_one_sentence(tmp_path: object) -> None:
    program = f"{tmp_path}/tool"
    with open(program, "w") as file:  # noqa: PTH123 - the folder above is ours alone
        file.write("#!/bin/sh\n")
    os.chmod(program, 0o700)  # noqa: PTH101
    with pytest.raises(LoadError, match=r"can't be run as user 65534 \(--user names another\): Permission denied"):
        run([program], timeout_s=30, account=Account(65534, 65534))


@pytest.mark.parametrize(
    ("tool", "words", "shown"),
    [
        ("h2load", ["-H", "Authorization: Bearer hunter2"], ["-H", "Authorization: ***"]),
        ("h2load", ["--header=cookie: a=hunter2"], ["--header=cookie: ***"]),
        ("h2load", ["-Hx-api-key:hunter2"], ["-Hx-api-key: ***"]),
        ("h2load", ["-H", "Connection: close", "-n", "10"], ["-H", "Connection: close", "-n", "10"]),
        ("wrk", ["--header", "Proxy-Authorization: Basic c2VjcmV0", "-t2"], ["--header", "Proxy-Authorization: ***", "-t2"]),
        ("wrk", ["-H", "X-Session-Token: s3ss10n"], ["-H", "X-Session-Token: ***"]),
        ("ab", ["-A", "user:hunter2", "-n", "5"], ["-A", "***", "-n", "5"]),
        ("ab", ["-Auser:hunter2"], ["-A***"]),
        ("ab", ["-P", "user:hunter2"], ["-P", "***"]),
        ("ab", ["-C", "id=s3ss10n"], ["-C", "***"]),
        ("ab", ["-n", "5", "https://user:hunter2@host:1/a@b"], ["-n", "5", "https://***@host:1/a@b"]),
        ("ab", ["https://host/?user=me&access_token=hunter2#x"], ["https://host/?user=me&access_token=***#x"]),
        ("s_time", ["-connect", "host:1", "-pass", "pass:hunter2"], ["-connect", "host:1", "-pass", "***"]),
        ("s_time", ["-key", "client.key"], ["-key", "client.key"]),
    ],
)
def test_credentials_are_not_kept(tool: str, words: list[str], shown: list[str]) -> None:
    kept = without_credentials(tool, [TOOLS[tool].program, *words])
    assert kept == (TOOLS[tool].program, *shown)
    assert not any(secret in word for secret in SECRETS for word in kept)


def test_a_report_has_no_credentials() -> None:
    printed = "Running 1s test @ https://host/\n"
    output = run(["/bin/echo", "-n", printed], timeout_s=30)
    report = report_of(TOOLS["wrk"], output, ["wrk", "-H", "Authorization: hunter2", "https://me:hunter2@host/"])
    assert "hunter2" not in repr(report)


@pytest.mark.parametrize(("bits", "may"), [("000000c0", True), ("00000080", False), ("00000000", False)])
def test_a_root_without_the_right_to_change_stays_who_it_is(tmp_path: Path, bits: str, may: bool) -> None:
    status = tmp_path / "status"
    status.write_text(f"Name:\tpython3\nCapEff:\t{bits}\nCapBnd:\t000001ffffffffff\n")
    assert _may_change(status) == may
