# SPDX-License-Identifier: Apache-2.0
"""Marks around what stands out in a report: characters of Unicode's private use, which no text of a target can hold, as all of
them are made printable. Where colours are shown, output/printing.py makes colours of them; elsewhere they aren't set."""

from __future__ import annotations

FAILURE = "\ue000"
DOMINANT = "\ue001"
FINDING = "\ue002"
END = "\ue00f"
