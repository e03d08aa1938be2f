# SPDX-License-Identifier: Apache-2.0
"""Handshake plans from disk (kept.py). Nothing here brings in the ELF parser or the decoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ssllatency.probes import handshake_codec
from ssllatency.probes.handshake_plan import HandshakePlan
from ssllatency.probes.kept import Cache, Kind
from ssllatency.probes.machine import BASELINE, Emulation

if TYPE_CHECKING:
    from ssllatency.elf.image import Image

_PLANS = Kind(
    "handshake",
    handshake_codec.to_values,
    lambda values, size: handshake_codec.from_values(values, file_size=size),
    lambda plan: bool(plan.kind and not plan.missing),
)


def cached_handshake_plan(
    path: str | Path,
    open_image: Callable[[], Image],
    *,
    label: str = "",
    emulation: Emulation = BASELINE,
    debug_roots: Sequence[str] = ("/",),
    directory: Path | None = None,
) -> tuple[HandshakePlan, bool]:
    """The handshake plan of the file `path`, and whether it came from the cache; arguments as those of cached_plan()."""

    def make(image: Image) -> HandshakePlan:
        from ssllatency.probes.phases import plan_handshake

        return plan_handshake(image, emulation=emulation)

    plan, kept = Cache(debug_roots, directory).found(_PLANS, path, (emulation,), open_image, make)
    return (replace(plan, path=label or str(path)) if kept else plan), kept
