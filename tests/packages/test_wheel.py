# SPDX-License-Identifier: Apache-2.0
"""The wheel, by pip into an environment of its own, and what `make install` makes of it: `top` opens with nothing else to
install."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.commands import installed
from tests.live.conftest import certificates
from tests.live.servers.nginx import Nginx
from tests.packages.roots import assert_top_opens

__all__ = ["certificates"]


@pytest.mark.parametrize("way", installed.WAYS)
def test_top_opens_in_a_terminal(way: str, certificates: Path, tmp_path: Path) -> None:
    prefix = installed.install(way, tmp_path / "prefix")
    program = installed.alone(prefix / "bin" / "ssllatency", tmp_path)
    with Nginx(certificates) as server:
        assert_top_opens(str(program), "top", "-p", str(server.master_pid))
