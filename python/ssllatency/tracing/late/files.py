# SPDX-License-Identifier: Apache-2.0
"""Files that came later, and how they are traced: each is checked as those were that were there from the start."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from ssllatency.engines.attach.attachment import Attachment
from ssllatency.engines.base import TooManyFilesError, TracedImage
from ssllatency.engines.follow.mappings import MappingNotice
from ssllatency.errors import SsllatencyError, phrase
from ssllatency.probes.join import complete
from ssllatency.targets import MappedFile, Numbers, code_byte
from ssllatency.tracing.late.notes import Notes
from ssllatency.tracing.links.changed_code import OWN_LINKS, endangered, unprobed
from ssllatency.tracing.links.own_links import OwnLinks
from ssllatency.tracing.seen_files import SeenFiles

Told = dict[tuple[Numbers, str], MappingNotice]  # what a process has mapped, by what is told of the files
OnDisk = tuple[MappedFile, MappingNotice, TracedImage]


class LateFiles:
    """Has files traced. `extend` attaches their images, and may leave some out."""

    def __init__(
        self,
        attachment: Attachment,
        extend: Callable[[Sequence[TracedImage]], None],
        stack: ExitStack,
        seen: SeenFiles,
        links: OwnLinks,
        notes: Notes,
    ) -> None:
        self._attachment, self._extend, self._stack = attachment, extend, stack
        self._seen, self._links, self._notes = seen, links, notes
        self._attached_ns: dict[int, int] = {}  # by number of a file, when its probes were attached
        self._unprobed_of: dict[str, dict[int, str]] = {}  # by path of an image's descriptor, why processes get no probes

    def attached_ns(self, number: int) -> int:
        """Return when the probes of the file of this number were attached, by CLOCK_MONOTONIC; 0 for one that was there
        first."""
        return self._attached_ns.get(number, 0)

    def beside(self, pid: int, files: Sequence[MappedFile]) -> list[TracedImage]:
        """The images that are traced already of the process, which maps these files."""
        numbers = [number for file in files if (number := self._seen.number_of(file)) is not None]
        return [replace(self._attachment.images[number], pids=(pid,)) for number in numbers]

    def add(
        self,
        pid: int,
        files: Sequence[MappedFile],
        images: Sequence[TracedImage],
        mapped: Told,
        opened: ExitStack,
    ) -> None:
        """Has those traced that aren't yet, as the process maps them. `mapped`: what the kernel told of it. `opened` keeps
        the files open until the first is attached, then they stay so. TooManyOpenFiles only before that."""
        fresh = []
        for file, image in zip(files, images, strict=True):
            number = self._traced_as(pid, file, image)
            if number is None:
                fresh.append((file, image))
            else:
                self._seen.trace(file.identity, file.numbers, file.path, number)
        if len(fresh) < len(files):  # what is traced already is known by its identity, which is its own as long as it is open
            self._stack.push(opened.pop_all())
        numbers = self._extended((image for _, image in fresh), opened)
        for mapping, image in fresh:
            if image.file in numbers:
                number = numbers[image.file]
                self._attached(mapping, number)
                if sentence := self._unprobed_of.pop(image.file, {}).get(pid):
                    self._links.spare(pid, number, sentence)
                    continue
                self._attachment.late.add(pid)
                notice = next((told for told in mapped.values() if told.numbers == mapping.numbers), None)
                earliest_ns = min((told.at_ns for told in mapped.values()), default=0)
                self._notes.say_when(pid, mapping.path, notice.at_ns if notice else earliest_ns)

    def add_from_disk(self, pid: int, fresh: Sequence[OnDisk], mapped: Told, opened: ExitStack) -> None:
        """Has files traced that a process had mapped which is gone. `opened`: as for add()."""
        self._attachment.late.add(pid)
        numbers = [number for mapping in mapped.values() if (number := self._seen.certain(mapping)) is not None]
        beside = [(self._attachment.images[number].plan, (pid,)) for number in numbers]
        plans = complete([*((image.plan, (pid,)) for _, _, image in fresh), *beside])
        planned = [replace(image, plan=plan) for (_, _, image), plan in zip(fresh, plans, strict=False)]
        numbered = self._extended(planned, opened)
        for file, mapping, image in fresh:
            if image.file in numbered:
                self._attached(file, numbered[image.file])
                self._notes.say_when(pid, mapping.path, mapping.at_ns)

    def _extended(self, images: Iterable[TracedImage], opened: ExitStack) -> dict[str, int]:
        """Attaches these images; their numbers by file, of those that were. If any were, the files stay open from then on, also
        where the kernel refuses another part after that: an image is known by the number of its file's descriptor."""
        images = list(images)
        safe = [image for image in map(self._made_safe, images) if image]
        if not safe:
            return {}
        first = len(self._attachment.images)
        try:
            self._extend(safe)
        except TooManyFilesError as error:
            for image in safe:
                sentence = f"No other file can be traced by this run: {phrase(error)}. Start it again to have others traced."
                self._notes.limit(sentence, f"{image.plan.path} {image.pids}")
        finally:
            if len(self._attachment.images) > first:
                self._stack.push(opened.pop_all())
        return {image.file: number for number, image in enumerate(self._attachment.images[first:], first)}

    def _attached(self, file: MappedFile, number: int) -> None:
        self._seen.trace(file.identity, file.numbers, file.path, number, shared=not self._attachment.has_own_links(number))
        self._links.note(self._attachment.images[number].pids, number)
        self._attached_ns[number] = time.monotonic_ns()

    def _made_safe(self, image: TracedImage) -> TracedImage | None:
        """The image without those of its processes that must not get probes, and with links of each process's own where links
        that all share would crash somebody. None where these aren't to be had, which is said."""
        if not self._attachment.each_process:
            sentence = endangered(image)
            if sentence and not self._attachment.may_link_each:
                self._notes.refuse(
                    f"{sentence} Links that all processes share would set it there, and this run has no others:"
                    f" {image.plan.path} isn't traced."
                )
                return None
            if sentence:
                self._notes.say(f"{sentence} {OWN_LINKS}")
            # To the kernel it may be a file that has such links already: links of both kinds would count a call twice.
            twin = any(other.own_links and image.plan.may_be(other.plan) for other in self._attachment.images)
            image = replace(image, own_links=bool(sentence or twin))
        self._unprobed_of[image.file] = unprobed(image, image.pids)
        return replace(image, pids=tuple(pid for pid in image.pids if pid not in self._unprobed_of[image.file]))

    def _traced_as(self, pid: int, file: MappedFile, image: TracedImage) -> int | None:
        """The number of the image that this one is to the kernel, under another name: its breakpoints are there already."""
        for number, traced in enumerate(self._attachment.images):
            if self._attachment.has_own_links(number):
                continue
            offset = self._attachment.site_in(number) if image.plan.may_be(traced.plan) else None
            if offset is not None and code_byte(pid, file, offset) not in (None, *_byte_of(image.file, offset)):
                return number
        return None

    # Files that have changed.

    def leave_overwritten(self) -> None:
        """Says which files were overwritten, whose probes were removed."""
        for image in self._attachment.leave_overwritten():
            self._notes.say(
                f"{image.plan.path} was overwritten while it was traced: its probes were removed, and its calls aren't counted"
                " from then on. Restart the processes that map it, for overwriting a library that runs breaks them."
            )

    def retrace_copied(self) -> None:
        """Has files traced once more that an overlay has copied: who maps them from then on runs the copy."""
        for number in self._attachment.leave_copied():
            image = self._attachment.images[number]
            try:
                traced = self._trace_copy(number, image)
            except (SsllatencyError, OSError) as error:
                self._notes.refuse(f"The copy of {image.plan.path} isn't traced: {error}")
                continue
            if not traced:
                continue
            self._notes.say(
                f"{image.plan.path} was touched or opened for writing while it was traced, and an overlay has copied it:"
                " calls of processes that already mapped the copy weren't counted until now. In processes that run the"
                " original, functions that are watched in windows are no longer counted."
            )

    def warn_of_copied(self) -> None:
        """The kernel finds the copy by the path of the original, so that links of a new child are to what it doesn't run."""
        for number in self._attachment.perhaps_copied():
            path = self._attachment.images[number].plan.path
            self._notes.say(
                f"{path} was touched or opened for writing while it was traced, and its overlay may have copied it: processes"
                " that are forked by those that run the original may not be counted."
            )

    def _trace_copy(self, number: int, image: TracedImage) -> bool:
        """Whether it is traced now. Where it would harm somebody, that was said."""
        descriptor = os.dup(int(image.file.rpartition("/")[2]))
        self._stack.callback(os.close, descriptor)
        copy = self._made_safe(replace(image, file=f"/proc/self/fd/{descriptor}", pids=()))
        if copy is None:
            return False
        self._extend([copy])
        new = len(self._attachment.images) - 1
        if self._attachment.images[new].file != copy.file:  # none of its functions was asked for
            return False
        self._seen.renumber(number, new)
        self._attached_ns[new] = time.monotonic_ns()
        return True


def _byte_of(file: str, offset: int) -> bytes:
    """The byte that the file itself has there."""
    with Path(file).open("rb") as opened:
        opened.seek(offset)
        return opened.read(1)
