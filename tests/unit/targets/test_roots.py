# SPDX-License-Identifier: Apache-2.0
"""Whose root may say what a file's functions are called."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ssllatency.targets.roots import debug_roots

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="changing a process's root needs root")

_ENTER = "import os, sys; os.chroot(sys.argv[1]); print('ready', flush=True); sys.stdin.read()"
_BIND = 'mount --bind "$1" "$2"; shift 2; exec "$@"'


@contextmanager
def process_in(root: Path, *before: str) -> Iterator[str]:
    """Where the root of a process lies that has made `root` its own, started by the command `before`."""
    command = [*before, sys.executable, "-c", _ENTER, str(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        try:
            yield f"/proc/{process.pid}/root"
        finally:
            process.stdin.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root/lib").mkdir(parents=True)
    (tmp_path / "root/lib/libssl.so.3").write_text("the container's")
    (tmp_path / "libssl.so.3").write_text("the host's")
    return tmp_path / "root"


def test_a_root_speaks_for_its_own_files_after_the_host(root: Path) -> None:
    with process_in(root) as seen:
        for path in ("/lib/libssl.so.3", f"{root}/lib/libssl.so.3"):
            assert debug_roots(root / "lib/libssl.so.3", path, seen) == ("/", seen)


def test_a_process_with_our_root_has_none_of_its_own(root: Path) -> None:
    file = root / "lib/libssl.so.3"
    assert debug_roots(file, str(file), f"/proc/{os.getpid()}/root") == ("/",)
    with process_in(Path("/")) as seen:
        assert debug_roots(file, str(file), seen) == ("/",)


def test_no_root_speaks_for_a_file_that_lies_outside_of_it(root: Path) -> None:
    with process_in(root) as seen:
        host = root.parent / "libssl.so.3"
        for path in ("/lib/libssl.so.3", str(host), "/../libssl.so.3", "/lib/missing"):
            assert debug_roots(host, path, seen) == ("/",)


def test_a_link_in_a_root_leads_to_no_file_of_it(root: Path) -> None:
    (root / "lib/link.so").symlink_to(root.parent / "libssl.so.3")
    with process_in(root) as seen:
        assert debug_roots(root.parent / "libssl.so.3", "/lib/link.so", seen) == ("/",)


def test_no_root_speaks_for_a_file_that_is_mounted_into_it(root: Path) -> None:
    host, inside = root.parent / "libssl.so.3", root / "lib/libssl.so.3"
    with process_in(root, "unshare", "--mount", "sh", "-ec", _BIND, "sh", str(host), str(inside)) as seen:
        assert Path(f"{seen}/lib/libssl.so.3").read_text() == "the host's"
        assert debug_roots(f"{seen}/lib/libssl.so.3", "/lib/libssl.so.3", seen) == ("/",)


def test_no_root_speaks_that_a_user_namespace_made(root: Path) -> None:
    own = ("unshare", "--user", "--map-root-user")
    for before in (own, (*own, "--mount")):
        with process_in(root, *before) as seen:
            assert debug_roots(root / "lib/libssl.so.3", "/lib/libssl.so.3", seen) == ("/",)


def test_a_process_that_is_gone_has_no_root(root: Path) -> None:
    assert debug_roots(root / "lib/libssl.so.3", "/lib/libssl.so.3", f"/proc/{1 << 22}/root") == ("/",)
