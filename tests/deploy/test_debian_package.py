# SPDX-License-Identifier: Apache-2.0
"""The Debian package is built, and lintian has nothing to say about it but what the overrides explain."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest

from tests import bills
from tests.deploy.rights import TOP
from tests.programs import needed


@pytest.fixture(scope="module")
def package() -> Path:
    needed("dh")
    done = subprocess.run(["make", "deb"], cwd=TOP, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return TOP / done.stdout.split()[-1]


def test_lintian_finds_nothing(package: Path) -> None:
    needed("lintian")
    command = ["lintian", "--allow-root", "--fail-on", "error,warning", package]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_it_has_the_objects_of_its_architecture_and_is_all_roots(package: Path) -> None:
    done = subprocess.run(["dpkg-deb", "--contents", package], capture_output=True, text=True, check=True, timeout=60)
    lines = done.stdout.splitlines()
    assert {line.split()[1] for line in lines} == {"root/root"}
    objects = {line.rsplit("/", 2)[1] for line in lines if line.endswith(".bpf.o")}
    assert objects == {platform.machine()}
    files = {line.split()[5] for line in lines}
    assert files >= {
        "./usr/bin/ssllatency",
        "./usr/lib/systemd/system/ssllatency-export.service",
        "./usr/share/man/man1/ssllatency-trace.1.gz",
        "./usr/share/bash-completion/completions/ssllatency",
        "./usr/share/doc/ssllatency/copyright",
    }
    assert [file for file in files if file.endswith(".pyc") or ".dist-info/" in file] == []


def test_its_bill_of_materials_lists_what_is_in_it_and_what_it_needs(package: Path, tmp_path: Path) -> None:
    subprocess.run(["dpkg-deb", "--extract", package, tmp_path], check=True, timeout=60)
    document = bills.of(tmp_path)
    assert bills.faults(document) == []
    assert bills.differences(document, tmp_path) == []
    fields = "Depends: ${Depends}\nRecommends: ${Recommends}\nSuggests: ${Suggests}\n"
    command = ["dpkg-deb", "--show", f"--showformat={fields}", package]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    needed, *optional = [line.partition(": ")[2].split(", ") for line in shown.stdout.splitlines()]
    assert bills.terms(document, "DEPENDS_ON") == needed
    assert any(term.startswith("libc6 (>= ") for term in needed)
    assert bills.terms(document, "OPTIONAL_DEPENDENCY_OF") == [term for terms in optional for term in terms]


def test_the_screen_of_top_comes_along(package: Path, tmp_path: Path) -> None:
    """All that it imports is in the package, or Python's own."""
    subprocess.run(["dpkg-deb", "--extract", package, tmp_path], check=True, timeout=60)
    lib = tmp_path / "usr/lib/ssllatency"
    program = (
        "import sys; sys.path = [sys.argv[1], *(path for path in sys.path if not path.endswith('-packages'))]\n"
        "from ssllatency.output.screen.need import need_textual; need_textual()\n"
        "import ssllatency.output.screen.app, textual; print(textual.__file__)"
    )
    command = ["/usr/bin/python3", "-I", "-B", "-c", program, str(lib)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == str(lib / "textual/__init__.py")
