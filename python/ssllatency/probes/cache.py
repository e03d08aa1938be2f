# SPDX-License-Identifier: Apache-2.0
"""Keeps plans on disk, so that attaching again takes milliseconds.

An entry is found by what it depends on: the contents of the planned file, this program's own code and the planner's settings;
and it is checked against the separate debug file that it was made with. Nothing here brings in the ELF parser or the decoder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ssllatency.probes import codec, store
from ssllatency.probes.machine import BASELINE, Emulation
from ssllatency.probes.plan import ImagePlan

if TYPE_CHECKING:
    from ssllatency.elf.image import Image


def cached_plan(
    path: str | Path,
    open_image: Callable[[], Image],
    *,
    label: str = "",
    return_probes: bool = True,
    emulation: Emulation = BASELINE,
    branch_exits: bool = True,
    debug_roots: Sequence[str] = ("/",),
    directory: Path | None = None,
) -> tuple[ImagePlan, bool]:
    """The plan of the file `path`, and whether it came from the cache.

    `open_image` opens the same file where it must be planned; `label` is the path that the plan shows (`path` if not given);
    `debug_roots` are those that the image is opened with; `directory` is the folder of the cache (`store.default_directory()`).
    """
    directory = directory or store.default_directory()
    content = store.digest(path)
    name = store.entry_name(content, return_probes, emulation, branch_exits)
    found = _load(directory, name, path, debug_roots) if name else None
    if found:
        return replace(found, path=label or str(path)), True
    from ssllatency.probes.planner import plan_image

    image = open_image()
    plan = plan_image(image, return_probes=return_probes, emulation=emulation, branch_exits=branch_exits)
    if name and plan.build_id and store.digest(path) == content:
        store.store(directory, name, {"debug": store.identity(image.debug_file), "plan": codec.to_values(plan)})
    return plan, False


def _still_true(debug: object, plan: ImagePlan, debug_roots: Sequence[str]) -> bool:
    """Whether the debug file of the entry is unchanged or, where there was none, none has come that might name more."""
    if debug is not None:
        return store.same_debug_file(debug)
    return bool(plan.kind and not plan.missing) or not store.debug_file_has_come(plan.build_id, debug_roots)


def _load(directory: Path, name: str, path: str | Path, debug_roots: Sequence[str]) -> ImagePlan | None:
    entry = store.load(directory, name)
    if not isinstance(entry, dict) or set(entry) != {"debug", "plan"}:
        return None
    try:
        plan = codec.from_values(entry["plan"], file_size=os.stat(path).st_size)  # noqa: PTH116
    except (OSError, ValueError, RecursionError, codec.DamagedPlan):
        return None
    return plan if plan.build_id and _still_true(entry["debug"], plan, debug_roots) else None
