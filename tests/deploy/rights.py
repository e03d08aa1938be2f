# SPDX-License-Identifier: Apache-2.0
"""The capabilities that the unit and the DaemonSet give, as they are written there."""

from __future__ import annotations

import re
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
UNIT = TOP / "deploy" / "systemd" / "ssllatency-export.service"
DAEMONSET = TOP / "deploy" / "kubernetes" / "daemonset.yaml"


def of_unit(setting: str = "AmbientCapabilities") -> set[str]:
    """Without CAP_, in small letters."""
    (words,) = re.findall(rf"^{setting}=(.*)$", UNIT.read_text(), re.MULTILINE)
    return {word.removeprefix("CAP_").lower() for word in words.split()}


def of_daemonset() -> set[str]:
    """The same of the container."""
    (words,) = re.findall(r"^ +add: \[(.*)\]$", DAEMONSET.read_text(), re.MULTILINE)
    return {word.strip().lower() for word in words.split(",")}
