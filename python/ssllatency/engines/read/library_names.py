# SPDX-License-Identifier: Apache-2.0
"""Names of the codes of each traced file, read out of it when a report first needs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from ssllatency.engines.base import TracedImage
from ssllatency.stacks.names import Names, join


def names_in(images: Sequence[TracedImage]) -> Callable[[int], Names]:
    """Return what gives the names of an image's codes by its number: its own, and those of other libraries of its stack that
    its processes map. In another stack the same codes mean other things.

    `images` may grow.
    """

    @cache
    def own(index: int) -> Names:
        image = images[index]
        return image.read_names(image) if image.read_names else Names()

    @cache
    def joined(index: int) -> Names:
        names: Names
        names, pids = own(index), set(images[index].pids)
        for other, image in enumerate(images):
            if other != index and image.plan.stack == images[index].plan.stack and pids & set(image.pids):
                names = join(names, own(other))
        return names

    return joined
