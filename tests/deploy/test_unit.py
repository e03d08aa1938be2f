# SPDX-License-Identifier: Apache-2.0
"""The unit of the service, by systemd's own checks, and its capabilities against those that the documents name."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.deploy import rights
from tests.programs import needed

# As `systemd-analyze security` of Debian 12 rates it, 0 to 10; deploy.md tells it.
MOST_EXPOSED = 2.6


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a program that is there, as systemd asks for one."""
    needed("systemd-analyze")
    copy = tmp_path / rights.UNIT.name
    copy.write_text(rights.UNIT.read_text().replace("/usr/bin/ssllatency", "/bin/true"))
    return copy


def analysed(*words: object) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_systemd_has_nothing_to_say_about_it(unit: Path) -> None:
    done = analysed("verify", "--man=no", unit)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    unit.write_text(unit.read_text().replace("ProtectClock=yes", "ProtectClocks=yes"))
    assert "ProtectClocks" in analysed("verify", "--man=no", unit).stderr


def test_its_exposure_is_what_the_document_says(unit: Path) -> None:
    done = analysed("security", "--offline=true", "--no-pager", f"--threshold={MOST_EXPOSED * 10:.0f}", unit)
    assert done.returncode == 0, done.stdout
    (measured,) = re.findall(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert float(measured) == MOST_EXPOSED
    assert f"{MOST_EXPOSED} of 10" in (rights.TOP / "docs" / "use" / "deploy.md").read_text()


def test_it_has_the_capabilities_of_the_document_and_no_others() -> None:
    named = set(re.findall(r"CAP_\w+", table_of_privileges()))
    assert rights.of_unit() == {name.removeprefix("CAP_").lower() for name in named} - {"sys_admin"}  # as good as all of them
    assert rights.of_unit("CapabilityBoundingSet") == rights.of_unit()


def test_the_daemonset_has_the_same_and_those_to_become_another_user() -> None:
    assert rights.of_daemonset() == rights.of_unit() | {"setuid", "setgid"}


def table_of_privileges() -> str:
    (page,) = (rights.TOP / "docs").rglob("privileges.md")
    return page.read_text().split("\n\n")[2]
