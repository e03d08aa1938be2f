# SPDX-License-Identifier: Apache-2.0
"""Files that a process had mapped which is gone by now: the next one like it maps them as well."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import replace

from ssllatency.engines.attach.attachment import Attachment
from ssllatency.engines.base import TracedImage
from ssllatency.engines.follow.mappings import MappingNotice
from ssllatency.errors import TooManyOpenFiles
from ssllatency.stacks.file_names import has_library_name
from ssllatency.targets import ExpectedFile, MappedFile, open_expected, root_paths
from ssllatency.tracing.allowance import owner
from ssllatency.tracing.expected import image_of
from ssllatency.tracing.plan_source import PlanSource
from ssllatency.tracing.seen_files import SeenFiles


class FilesOnDisk:
    """Finds them by their paths in the roots of processes that are there, which `present` tells."""

    def __init__(
        self,
        attachment: Attachment,
        source: PlanSource,
        seen: SeenFiles,
        present: Callable[[], Collection[int]],
    ) -> None:
        self._attachment, self._source, self._seen = attachment, source, seen
        self._present = present

    def image_of(self, mapping: MappingNotice, stack: ExitStack) -> tuple[MappedFile, TracedImage] | None:
        """The file that the process had mapped, if it has to be traced; its descriptor stays open as long as the stack.
        TooManyOpenFiles where there is none left."""
        with ExitStack() as passing:
            file = self._opened(mapping, passing)
            if file is None:
                if has_library_name(mapping.path):
                    self._attachment.late.add(mapping.pid)
                return None
            identity = file.mapping.identity
            if identity in self._seen.traced:
                if self._attachment.has_own_links(self._seen.traced[identity]):
                    self._attachment.late.add(mapping.pid)
                return None
            image = None
            if not self._seen.has_examined(file.version):
                user = owner(file.descriptor)
                if not self._seen.room.has_room(user):
                    return None
                self._seen.room.use(user, 1)
                image = image_of(file, self._source)
            if image is None:
                self._seen.examine_version(file.version)
                self._seen.settle(identity, file.mapping.numbers, mapping.generation)
                return None
            traced = any(image.plan.may_be(other.plan) for other in self._attachment.images)
            if traced or self._attachment.each_process:
                # Perhaps a traced file by another name: a process that maps it will show that.
                self._attachment.late.add(mapping.pid)
                return None
            try:
                descriptor = os.dup(file.descriptor)
            except OSError:
                raise TooManyOpenFiles(mapping.path) from None
            stack.callback(os.close, descriptor)
            return file.mapping, replace(image, file=f"/proc/self/fd/{descriptor}")

    def _opened(self, mapping: MappingNotice, stack: ExitStack) -> ExpectedFile | None:
        roots = [*root_paths(sorted(self._present())), "/"]
        opened = (open_expected(mapping.path, root, stack) for root in roots)
        return next((file for file in opened if file and file.mapping.numbers == mapping.numbers), None)
