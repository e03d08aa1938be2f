# SPDX-License-Identifier: Apache-2.0
"""The bpftraces that tests run: this machine's own, and that of the Debian 13 root, each found by the name bpftrace."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import pytest

from tests import foreign
from tests.machine import LIBRARIES

OWN, DEBIAN_13 = "bpftrace", "bpftrace of Debian 13"
_LOADERS = {"x86_64": "/lib64/ld-linux-x86-64.so.2", "aarch64": "/lib/ld-linux-aarch64.so.1"}
# Its libraries are the root's, all other files are the machine's: in a mount namespace of its own the loader is exchanged.
_WRAPPER = """#!/bin/sh
exec unshare --mount sh -c 'mount --bind "$0$1" "$1" && root=$0 && shift &&
\tLD_LIBRARY_PATH=$root{libraries} exec "$root/usr/bin/bpftrace" "$@"' {root} {loader} "$@"
"""


def folder_of(which: str, directory: Path) -> Path:
    """The folder to look for bpftrace in; what isn't there yet is made in `directory`. Skips where there is none."""
    if which == OWN:
        found = shutil.which("bpftrace", path=f"{os.environ['PATH']}:/usr/sbin:/usr/bin")
        return Path(found).parent if found else pytest.skip("not installed: bpftrace")
    root = foreign.needed(foreign.second_root())
    if not (root / "usr" / "bin" / "bpftrace").exists():
        pytest.skip("the Debian 13 root has no bpftrace: run tools/for-tests/second-root")
    program = directory / "bpftrace"
    program.write_text(_WRAPPER.format(root=shlex.quote(str(root)), libraries=LIBRARIES, loader=_LOADERS[os.uname().machine]))
    program.chmod(0o755)
    return directory
