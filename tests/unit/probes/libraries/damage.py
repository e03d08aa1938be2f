# SPDX-License-Identifier: Apache-2.0
"""Planning files whose bytes were overwritten."""

from __future__ import annotations

import random
from pathlib import Path

from ssllatency.elf.image import Image
from ssllatency.errors import SsllatencyError
from ssllatency.probes.codec import from_values, to_values
from ssllatency.probes.plan import FilePlan
from ssllatency.probes.planner import plan_image


def survive_damage(image: Image, plan: FilePlan, damaged: Path, *, seed: int, times: int) -> None:
    """Overwrites bytes of the planned functions, and anywhere: each time it gives an SsllatencyError, or what passes for a plan
    wherever plans are read."""
    chance = random.Random(seed)
    content = Path(image.path).read_bytes()
    functions = [(image.file_offset(planned.address), planned.size) for planned in plan.operations]
    for count in (1, 5, 50, 400) * times:
        changed = bytearray(content)
        for _ in range(count):
            start, size = chance.choice([*functions, (0, len(content))])
            changed[start + chance.randrange(size)] = chance.randrange(256)
        damaged.write_bytes(changed)
        try:
            replanned = plan_image(Image.open(damaged))
        except SsllatencyError:
            continue
        assert from_values(to_values(replanned), file_size=len(content)) == replanned
