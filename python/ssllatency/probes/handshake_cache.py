# SPDX-License-Identifier: Apache-2.0
"""Keeps handshake plans on disk, as cache.py does those of operations. It brings in neither the ELF parser nor the decoder."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ssllatency.probes import handshake_codec, store
from ssllatency.probes.codec import DamagedPlan
from ssllatency.probes.handshake_plan import HandshakePlan
from ssllatency.probes.machine import BASELINE, Emulation

if TYPE_CHECKING:
    from ssllatency.elf.image import Image


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
    directory = directory or store.default_directory()
    content = store.digest(path)
    name = store.entry_name(content, "handshake", emulation)
    found = _load(directory, name, path, debug_roots) if name else None
    if found:
        return replace(found, path=label or str(path)), True
    from ssllatency.probes.phases import plan_handshake

    image = open_image()
    plan = plan_handshake(image, emulation=emulation)
    if name and plan.build_id and store.digest(path) == content:
        entry = {"debug": store.identity(image.debug_file), "handshake": handshake_codec.to_values(plan)}
        store.store(directory, name, entry)
    return plan, False


def _load(directory: Path, name: str, path: str | Path, debug_roots: Sequence[str]) -> HandshakePlan | None:
    entry = store.load(directory, name)
    if not isinstance(entry, dict) or set(entry) != {"debug", "handshake"}:
        return None
    try:
        plan = handshake_codec.from_values(entry["handshake"], file_size=os.stat(path).st_size)  # noqa: PTH116
    except (OSError, ValueError, RecursionError, DamagedPlan):
        return None
    return plan if plan.build_id and _still_true(entry["debug"], plan, debug_roots) else None


def _still_true(debug: object, plan: HandshakePlan, debug_roots: Sequence[str]) -> bool:
    """Whether the debug file of the entry is unchanged or, where there was none, none has come that might name more."""
    if debug is not None:
        return store.same_debug_file(debug)
    return bool(plan.kind and not plan.missing) or not store.debug_file_has_come(plan.build_id, debug_roots)
