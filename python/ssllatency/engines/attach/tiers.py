# SPDX-License-Identifier: Apache-2.0
"""The probes of an attachment by tier, so that those of one can be removed and set again while the others stay."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ssllatency import abi
from ssllatency.engines.attach.probing import Probing
from ssllatency.engines.attach.sites import ImageSites, Sites, joined, sites_of
from ssllatency.engines.base import TracedImage
from ssllatency.engines.bpf.loadable import Closable
from ssllatency.stacks.operation import Tier

SitesOf = Callable[[int], Mapping[str, Sites]]


class TierProbes:
    """The probes of images, by their numbers, at the sites of these `operations`. Without tiers all are together.

    `shut` are the tiers whose calls don't count, `held` those among them that never did: they are set, and wait for all else
    to be. `left_alone` are numbers of images that get no probe any more. `below` gives the sites of the tier BELOW for one
    image by its number, whenever they are set. Images that the object can't trace get none.
    """

    def __init__(
        self,
        operations: Sequence[str],
        make: Callable[[], Probing],
        can_trace: Callable[[TracedImage], bool],
        *,
        by_tier: bool,
    ) -> None:
        self._operations, self._can_trace = operations, can_trace
        # The last of them stay longest, and have what isn't a function's.
        tiers: Sequence[Tier | None] = tuple(Tier) if by_tier else (None,)
        self._by_tier: dict[Tier | None, Probing] = {tier: make() for tier in tiers}
        self._last = self._by_tier[tiers[-1]]
        self.shut: set[Tier] = set()
        self.held: set[Tier] = set()
        self.left_alone: set[int] = set()
        self.below: SitesOf | None = None
        self._came_back: set[Tier] = set()
        self._times_opened = 0  # the tier BELOW

    def hold(self, tiers: Collection[Tier]) -> None:
        """Holds tiers back until they are opened for the first time."""
        self.shut |= set(tiers)
        self.held |= set(tiers)

    def open(self, tiers: Collection[Tier]) -> bool:
        """Opens tiers that were shut. Returns whether these were the last that were held back: now all is set."""
        self.shut -= set(tiers)
        self._times_opened += Tier.BELOW in tiers
        are_last = bool(self.held) and not self.held - set(tiers)
        self.held -= set(tiers)
        return are_last

    @property
    def shut_word(self) -> int:
        """The tiers that are shut, and how many times the tier BELOW was opened, by the kernel side's count."""
        return self._times_opened << abi.Shut.TIMES | sum(1 << tier for tier in self.shut)

    @property
    def has_entries(self) -> bool:
        """Whether there is a probe at which a call begins."""
        return any(probing.has_entries for probing in self._by_tier.values())

    def will_have_entries(self, images: Iterable[TracedImage]) -> bool:
        """Whether there will be one in these images, once what is held back is set."""
        return any(self._sites_of(image, 0, tier).entries for image in images for tier in self.held)

    def add(self, first: int, images: Sequence[TracedImage], more: Mapping[str, Sequence[Sites]]) -> None:
        """Sets those of all tiers that are open; the first image's number is `first`. `more` gives for other programs the sites
        of each image."""
        for tier, probing in self._by_tier.items():
            if tier not in self.shut:
                sites = [self._sites_of(image, number, tier) for number, image in enumerate(images, first)]
                below = self._sites_below(tier, range(first, first + len(images)))
                probing.add(sites, joined(below, more, len(images)) if probing is self._last else below)

    def set_again(self, tiers: Iterable[Tier], images: Sequence[TracedImage]) -> None:
        """Sets all of tiers that were removed, in all images."""
        for tier in tiers:
            self._came_back.add(tier)
            sites = [self._sites_of(image, number, tier) for number, image in enumerate(images)]
            self._by_tier[tier].add(sites, self._sites_below(tier, range(len(images))))

    def add_programs(self, images: Sequence[TracedImage], more: Mapping[str, Sequence[Sites]]) -> None:
        """Sets programs at further sites of all images."""
        kept = {
            program: [[] if number in self.left_alone else sites for number, sites in enumerate(by_image)]
            for program, by_image in more.items()
        }
        self._last.add([ImageSites(image, [], [], [], [], []) for image in images], kept)

    def remove_programs(self, programs: Collection[str]) -> bool:
        """Removes those of these programs. Returns whether they are gone: perf events stay."""
        return self._last.remove_programs(programs)

    def add_link(self, link: Closable) -> None:
        """Takes a link that goes with those that stay longest."""
        self._last.exit_links.append(link)

    def take_links(self, links: Iterable[Closable]) -> None:
        """Gives such links back, for the caller to close."""
        self._last.take_out(links)

    def _sites_below(self, tier: Tier | None, numbers: Iterable[int]) -> dict[str, list[Sites]]:
        """Return `more` of a probing for what is below handshakes in the images of these numbers, if that is of the tier."""
        if self.below is None or tier not in (None, Tier.BELOW):
            return {}
        by_image = [
            {program: [] if number in self.left_alone else sites for program, sites in self.below(number).items()}
            for number in numbers
        ]
        return {program: [sites[program] for sites in by_image] for program in by_image[0]} if by_image else {}

    def _sites_of(self, image: TracedImage, number: int, tier: Tier | None) -> ImageSites:
        if number in self.left_alone or not self._can_trace(image):
            return ImageSites(image, [], [], [], [], [])
        return sites_of(image, self._operations, number, tier, windowed=tier in self._came_back)

    def site_in(self, file: str) -> int | None:
        """The offset of one of the sites in a file that is attached, None where nothing is attached to it."""
        there = (probing for tier, probing in self._by_tier.items() if tier not in self.shut)
        offsets = (probing.offset_in(file) for probing in there)
        return next((offset for offset in offsets if offset is not None), None)

    def close_entries(self, tiers: Iterable[Tier]) -> None:
        """Removes what sees calls of these tiers begin."""
        for tier in tiers:
            self._by_tier[tier].close_entries()

    def close_tier(self, tier: Tier) -> None:
        """Removes those of a tier that is shut."""
        self._by_tier[tier].close()

    def release(self, pids: Collection[int]) -> None:
        """Closes the links that processes had of their own which have ended."""
        for probing in self._by_tier.values():
            probing.release(pids)

    def leave(self, files: Collection[str]) -> None:
        """Removes the probes of these files."""
        for probing in self._by_tier.values():
            for file in files:
                probing.leave(file)

    @property
    def all(self) -> Collection[Probing]:
        """Those of each tier."""
        return self._by_tier.values()
