# SPDX-License-Identifier: Apache-2.0
"""Files that change while they are traced: whether an overlay has copied one to its upper layer, by what has become of it since
it was last looked at."""

from __future__ import annotations

from ssllatency.engines.attach.code_check import FileStatus, is_on_overlay, is_probed, status_of
from ssllatency.engines.base import TracedImage


class ChangedFiles:
    """Looks at the files of images, each by the number of its image."""

    def __init__(self) -> None:
        self._seen: dict[int, FileStatus] = {}

    def is_copied(self, number: int, image: TracedImage, offset: int | None) -> bool:
        """Whether processes that map the file from now on map another one, without the probe at `offset`. Only of links that
        all processes share; False where there is no probe."""
        status = self._change(number, image)
        if offset is None or status is None:
            return False
        if not is_probed(image, offset):
            return True
        self._seen[number] = status
        return False

    def may_be_copied(self, number: int, image: TracedImage) -> bool:
        """Whether the file is one of an overlay, and has changed since this was asked last."""
        status = self._change(number, image)
        if status is None:
            return False
        self._seen[number] = status
        return is_on_overlay(image)

    def _change(self, number: int, image: TracedImage) -> FileStatus | None:
        """The file's status where that is another than before."""
        status = status_of(image)
        return None if status is None or status == self._seen.setdefault(number, status) else status
