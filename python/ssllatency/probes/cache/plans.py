# SPDX-License-Identifier: Apache-2.0
"""Plans from disk (kept.py). Nothing here brings in the ELF parser or the decoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ssllatency.code.machine import BASELINE, Emulation
from ssllatency.probes import codec
from ssllatency.probes.cache.kept import Kind
from ssllatency.probes.plan import ImagePlan

if TYPE_CHECKING:
    from ssllatency.elf.image import Image

PLANS = Kind(
    "plan",
    codec.to_values,
    lambda values, size: codec.from_values(values, file_size=size),
    lambda plan: bool(plan.kind and not plan.missing),
)


@dataclass(frozen=True)
class PlanSettings:
    """What plans of one file differ by: arguments of plan_image()."""

    return_probes: bool = True
    emulation: Emulation = BASELINE
    branch_exits: bool = True

    @property
    def key(self) -> tuple[object, ...]:
        """What an entry's name depends on."""
        return self.return_probes, self.emulation, self.branch_exits

    def make(self, image: Image) -> ImagePlan:
        """The plan of an image."""
        from ssllatency.probes.planner import plan_image

        return plan_image(image, return_probes=self.return_probes, emulation=self.emulation, branch_exits=self.branch_exits)
