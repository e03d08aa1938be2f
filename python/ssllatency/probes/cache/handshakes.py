# SPDX-License-Identifier: Apache-2.0
"""Handshake plans from disk (kept.py). Nothing here brings in the ELF parser or the decoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ssllatency.code.machine import BASELINE, Emulation
from ssllatency.probes.cache.kept import Kind
from ssllatency.probes.handshake import codec as handshake_codec
from ssllatency.probes.handshake.plan import HandshakePlan

if TYPE_CHECKING:
    from ssllatency.elf.image import Image

HANDSHAKE_PLANS = Kind(
    "handshake",
    handshake_codec.to_values,
    lambda values, size: handshake_codec.from_values(values, file_size=size),
    lambda plan: bool(plan.kind and not plan.missing),
)


@dataclass(frozen=True)
class HandshakeSettings:
    """What handshake plans of one file differ by: arguments of plan_handshake()."""

    emulation: Emulation = BASELINE

    @property
    def key(self) -> tuple[object, ...]:
        """What an entry's name depends on."""
        return (self.emulation,)

    def make(self, image: Image) -> HandshakePlan:
        """The handshake plan of an image."""
        from ssllatency.probes.handshake.phases import plan_handshake

        return plan_handshake(image, emulation=self.emulation)
