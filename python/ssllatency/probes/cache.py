# SPDX-License-Identifier: Apache-2.0
"""Plans from disk (kept.py). Nothing here brings in the ELF parser or the decoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ssllatency.probes import codec
from ssllatency.probes.kept import Cache, Kind
from ssllatency.probes.machine import BASELINE, Emulation
from ssllatency.probes.plan import ImagePlan

if TYPE_CHECKING:
    from ssllatency.elf.image import Image

_PLANS = Kind(
    "plan",
    codec.to_values,
    lambda values, size: codec.from_values(values, file_size=size),
    lambda plan: bool(plan.kind and not plan.missing),
)


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

    def make(image: Image) -> ImagePlan:
        from ssllatency.probes.planner import plan_image

        return plan_image(image, return_probes=return_probes, emulation=emulation, branch_exits=branch_exits)

    settings = (return_probes, emulation, branch_exits)
    plan, kept = Cache(debug_roots, directory).found(_PLANS, path, settings, open_image, make)
    return (replace(plan, path=label or str(path)) if kept else plan), kept
