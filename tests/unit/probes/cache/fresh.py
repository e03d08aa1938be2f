# SPDX-License-Identifier: Apache-2.0
"""What a new process says that takes a plan, or names, from the cache."""

from __future__ import annotations

import os
import subprocess
import sys

_HEAD = "import sys\nfrom pathlib import Path\n"
_TAIL = '\nprint(*sorted({name.split(".")[0] for name in sys.modules} & {"capstone", "elftools"}))\n'


def printed(code: str) -> list[str]:
    """The words that this code prints, and what it brought in of the ELF parser's and the decoder's packages."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", _HEAD + code + _TAIL]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.split()
