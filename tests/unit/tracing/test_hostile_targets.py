# SPDX-License-Identifier: Apache-2.0
"""What an unprivileged process says of the host's own libraries, in a mount namespace of its own, changes nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures import hostile
from tests.fixtures.functions import function_ranges
from tests.fixtures.waiting_python import LOADS, waiting_python

from ssllatency.elf.image import Image
from ssllatency.probes.catalogue import CATALOGUE

LIBCRYPTO = Path("/usr/lib/x86_64-linux-gnu/libcrypto.so.3")
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="looking into another's process needs root"),
    pytest.mark.skipif(not LIBCRYPTO.exists(), reason=f"needs {LIBCRYPTO} (Debian: apt-get install libssl3)"),
]

_BIND = 'mount --bind "$1" /usr/lib/debug; shift; exec "$@"'


def planned(pid: int, cache: Path) -> Any:
    """The document of `ssllatency probes` for libcrypto in that process, without the costs, which are measured each time."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "XDG_CACHE_HOME": str(cache)}
    command = [sys.executable, "-m", "ssllatency", "probes", "-p", str(pid), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    file = next(file for file in json.loads(done.stdout)["files"] if file["path"] == str(LIBCRYPTO))
    for operation in file["operations"]:
        del operation["cost_ns"], operation["failing_ns"]
    return file


@pytest.mark.slow
def test_debug_files_of_a_namespace_choose_no_site_in_the_hosts_library(tmp_path: Path) -> None:
    image = Image.open(LIBCRYPTO, debug_roots=())
    ranges = sorted(function_ranges(image))
    gap = next(end for (_, end), (start, _) in pairwise(ranges) if start - end > 128)
    names = [name for operation in CATALOGUE if operation.library == "libcrypto" for name in operation.symbols]
    place = hostile.build_id_place(tmp_path, image.build_id)
    hostile.debug_file(place, image.build_id, ((name, gap + 1 + number, 64) for number, name in enumerate(names)))
    debug = tmp_path / "usr/lib/debug"
    namespaces = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", _BIND, "sh", str(debug))
    with waiting_python(LOADS, LIBCRYPTO) as honest:
        expected = planned(honest, tmp_path / "first")
    with waiting_python(LOADS, LIBCRYPTO, before=namespaces) as liar:
        seen = Path(f"/proc/{liar}/root/usr/lib/debug/.build-id", image.build_id[:2], f"{image.build_id[2:]}.debug")
        assert seen.exists()
        assert planned(liar, tmp_path / "second") == expected
        assert planned(liar, tmp_path / "second") == expected
    assert expected["operations"]
