# SPDX-License-Identifier: Apache-2.0
"""The checks by name. A check returns facts, raises Refused where the kernel can't, and fails by any other error."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

from tests.kernels.guest import servers
from tests.live.trace import PROGRAM

Check = Callable[[], dict[str, Any] | None]


def doctor() -> dict[str, Any]:
    """The doctor says that this machine can trace; the other checks show whether that is true."""
    done = subprocess.run([PROGRAM, "doctor", "--quiet"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"the doctor says: {done.stdout}{done.stderr}"
    return {}


CHECKS: dict[str, Check] = {
    "doctor": doctor,
    "trace": servers.traced,
    "handshakes": servers.handshakes,
    "snoop": servers.snooped,
}
