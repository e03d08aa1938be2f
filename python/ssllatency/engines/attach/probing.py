# SPDX-License-Identifier: Apache-2.0
"""The links of a run: which program goes to which sites, in an order that sees no call begin and not end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import chain
from typing import TYPE_CHECKING

from ssllatency.data_class import dataclass
from ssllatency.engines.attach.code_check import check_code
from ssllatency.engines.attach.images import is_go
from ssllatency.engines.attach.links import Linker, close_all
from ssllatency.engines.attach.sites import ImageSites, Sites
from ssllatency.engines.base import TracedImage
from ssllatency.engines.bpf import kernel, perf
from ssllatency.engines.bpf.loadable import Closable

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


@dataclass(frozen=True)
class Programs:
    """The names of an object's programs by what they are attached to."""

    entry: str = "at_entry"
    exit: str = "at_exit"
    at_return: str = "at_return"
    both: str = "at_both"
    free: str = "at_free"
    error: str = "at_error"
    go_entry: str = "at_go_entry"
    go_exit: str = "at_go_exit"
    go_leaving: str = "at_go_leaving"

    def of(self, image: TracedImage) -> Programs:
        """Those for the functions of an image, by their calling convention. No return probe is set in Go's."""
        return replace(self, entry=self.go_entry, exit=self.go_exit, error=self.go_leaving) if is_go(image) else self

    def at_sites(self, images: Iterable[TracedImage], *, later: bool) -> tuple[str, ...]:
        """All but those for return probes that these images need, `later`: and any that come."""
        of_go = later or any(self.of(image) is not self for image in images)
        return (
            self.entry,
            self.exit,
            self.free,
            self.error,
            *((self.go_entry, self.go_exit, self.go_leaving) if of_go else ()),
        )


STANDARD = Programs()
FLOOR = Programs(**{field.name: "at_nothing_twice" if field.name == "both" else "at_nothing" for field in fields(Programs)})


class Probing:
    """Links that are attached, more of them as files and processes come."""

    def __init__(self, linker: Linker, programs: Programs) -> None:
        self._linker, self._programs = linker, programs
        self._session = linker.method is kernel.Method.SESSION
        self._entry_links: list[Closable] = []
        self.exit_links: list[Closable] = []
        self._offsets: dict[str, int] = {}
        self._closer: ThreadPoolExecutor | None = None

    @property
    def has_entries(self) -> bool:
        """Whether any call can be seen to begin."""
        return bool(self._entry_links)

    def offset_in(self, file: str) -> int | None:
        """The offset of one of the sites of that file, None where it has none."""
        return self._offsets.get(file)

    def add(self, images: Sequence[ImageSites], more: Mapping[str, Sequence[Sites]]) -> None:
        """All links of these images or none, ways out first. `more` gives for other programs the sites of each image.

        AttachError also where a file doesn't have the code by which its sites were chosen.
        """
        for number, sites in enumerate(images):
            check_code(sites.image, _offsets(number, sites, more))
        out: list[Closable] = []
        into: list[Closable] = []
        try:
            for sites in images:
                self._add_exits(sites, out)
            for program, lists in more.items():
                for sites, added in zip(images, lists, strict=True):
                    out += self._linker.attach(sites.image, program, added)
            for sites in images:
                self._add_entries(sites, into)
        except BaseException:
            close_all(into)
            close_all(out)
            raise
        self.exit_links += out
        self._entry_links += into
        for number, sites in enumerate(images):
            for offset in _offsets(number, sites, more):
                self._offsets.setdefault(sites.image.file, offset)  # programs that are attached later may be removed before

    def _add_exits(self, sites: ImageSites, links: list[Closable]) -> None:
        names, attach = self._programs.of(sites.image), self._linker.attach
        links += attach(sites.image, names.error, sites.errors)
        if names.free == names.exit:
            links += attach(sites.image, names.exit, sites.frees + sites.exits)
        else:
            links += attach(sites.image, names.free, sites.frees)
            links += attach(sites.image, names.exit, sites.exits)
        if not self._session:
            links += attach(sites.image, names.at_return, sites.returns, at_return=True)

    def _add_entries(self, sites: ImageSites, links: list[Closable]) -> None:
        names, attach = self._programs.of(sites.image), self._linker.attach
        if self._session:
            links += attach(sites.image, names.both, sites.returns, session=True)
            links += attach(sites.image, names.entry, sites.entries)
        else:
            links += attach(sites.image, names.entry, sites.entries + sites.returns)

    def close_entries(self) -> None:
        """Detaches what sees calls begin; those that run are still seen to end."""
        close_all(self._entry_links)

    def close(self) -> None:
        """Detaches all at once, where no entry counts any more, and waits until all are gone, perf events too, as tracing goes
        on: from then on they cost nothing. May be called twice."""
        close_all(self.take_all())

    def take_all(self) -> list[Closable]:
        """All links, for the caller to close; each is given once."""
        links = [*self._entry_links, *self.exit_links]
        self._entry_links.clear()
        self.exit_links.clear()
        self._linker.forget()
        self._offsets.clear()
        return links

    def wait_for_ended(self) -> None:
        """Waits for the links of processes that had ended, which a thread closes."""
        if self._closer:
            self._closer.shutdown()
            self._closer = None

    @property
    def by_perf_events(self) -> bool:
        """Whether the probes are perf events."""
        return self._linker.method is kernel.Method.PERF

    def release(self, pids: Iterable[int]) -> None:
        """Closes the links that processes had of their own which have ended; a thread waits for the kernel. Perf events, which
        take it far longer, stay to the end."""
        ended = [] if self.by_perf_events else self._linker.take_from(pids)
        self.take_out(ended)
        if ended:
            from concurrent.futures import ThreadPoolExecutor  # not before the probes are attached

            self._closer = self._closer or ThreadPoolExecutor(1)
            self._closer.submit(close_all, ended)

    def remove_programs(self, programs: Iterable[str]) -> bool:
        """Removes these programs, which aren't those of functions, from all files. Returns whether they are gone: perf events
        stay."""
        if self.by_perf_events:
            return False
        links = self._linker.take_of_programs(programs)
        self.take_out(links)
        close_all(links)
        return True

    def leave(self, file: str) -> None:
        """Removes what is attached to that file, at once."""
        links = self._linker.take_from_file(file)
        self.take_out(links)
        self._offsets.pop(file, None)
        close_all(links)

    def take_out(self, links: Iterable[Closable]) -> None:
        """Forgets these links, which the caller closes."""
        numbers = set(map(id, links))
        self._entry_links = [link for link in self._entry_links if id(link) not in numbers]
        self.exit_links = [link for link in self.exit_links if id(link) not in numbers]


def close_together(probings: Sequence[Probing]) -> None:
    """Detaches all of several at once at the end, when nothing that they see counts any more: the kernel takes the breakpoints
    out at once, but waits some 50 ms over each link. Perf events go later, and until then their programs run on."""
    left = [link for probing in probings if probing.by_perf_events for link in probing.take_all()]
    if left:
        perf.leave_to_the_kernel(left)
    close_all([link for probing in probings for link in probing.take_all()])
    for probing in probings:
        probing.wait_for_ended()


def _offsets(number: int, sites: ImageSites, more: Mapping[str, Sequence[Sites]]) -> Iterator[int]:
    """The offsets of the sites of an image, `number` its place in the lists of `more`."""
    lists = (
        sites.exits,
        sites.frees,
        sites.errors,
        sites.returns,
        sites.entries,
        *(by_image[number] for by_image in more.values()),
    )
    return (offset for offset, _ in chain.from_iterable(lists))
