# SPDX-License-Identifier: Apache-2.0
"""Findings about a file, part by part: how each part is made of an image, written down, and read again.

Nothing here brings in the ELF parser or the decoder, nor what only some of the parts need.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ssllatency.data_class import dataclass
from ssllatency.facts import FileFacts
from ssllatency.fields import Field, FieldError
from ssllatency.probes import codec
from ssllatency.probes.catalogue import OF_HANDSHAKES
from ssllatency.probes.contents import file_facts, read_facts
from ssllatency.probes.plan import FilePlan, HandshakeSites
from ssllatency.probes.settings import PlanSettings

if TYPE_CHECKING:
    from ssllatency.elf.image import Image
    from ssllatency.stacks.names import Names

T = TypeVar("T")


@dataclass(frozen=True)
class FilePart(Generic[T]):
    """One thing that can be found out about a file.

    `to_values` makes plain JSON values of it; `from_values` checks these in full, with the size of the file, and raises
    FieldError. `complete`: whether a debug file that comes later could add nothing. `suffices`: whether it shows that no
    other part will be asked for. `by_name`: it depends on what the file is called, too. `room`: the package that no other part
    is made with; stacks have more of them. `whole`: another part which has all of this one, and stands for it where it is
    known.
    """

    name: str
    make: Callable[[Image, PlanSettings], T]
    to_values: Callable[[T], dict[str, Any]]
    from_values: Callable[[object, int], T]
    complete: Callable[[T], bool] = lambda _: False
    suffices: Callable[[T], bool] = lambda _: False
    by_name: bool = False
    room: str = ""
    whole: FilePart[T] | None = None

    def key(self, path: str) -> str:
        """The key of it in the entry about a file that is called as at `path`."""
        return f"{self.name} of {path.rpartition('/')[2]}" if self.by_name else self.name

    def read(self, values: object, file_size: int) -> T:
        """Read what `to_values` turned into `values`. FieldError for anything else."""
        try:
            return self.from_values(values, file_size)
        except (ValueError, RecursionError):
            raise FieldError(self.name) from None


def _plan(image: Image, settings: PlanSettings) -> FilePlan:
    from ssllatency.probes.planner import plan_image

    return plan_image(image, settings)


def _calls(image: Image, settings: PlanSettings) -> FilePlan:
    from ssllatency.probes.planner import plan_image

    return plan_image(image, settings, OF_HANDSHAKES)


def _handshake(image: Image, settings: PlanSettings) -> HandshakeSites:
    from ssllatency.probes.handshake.phases import plan_handshake

    return plan_handshake(image, settings)


def _names(image: Image, _settings: PlanSettings) -> Names:
    from ssllatency.stacks.registry import stack_of

    return stack_of(image).names(image)


def _names_values(names: Names) -> dict[str, Any]:
    from ssllatency.probes.cache.names import to_values

    return to_values(names)


def _read_names(values: object, _file_size: int) -> Names:
    from ssllatency.probes.cache.names import from_values

    return from_values(values)


def _facts(image: Image, settings: PlanSettings) -> FileFacts:
    return file_facts(image, settings.machine)


PLAN = FilePart(
    "plan",
    _plan,
    codec.to_values,
    codec.from_values,
    complete=lambda plan: bool(plan.kind and not plan.missing),
)
# What of a plan handshakes alone are followed by: a part of it is planned sooner than all.
CALLS = FilePart("calls", _calls, codec.to_values, codec.from_values, complete=PLAN.complete, whole=PLAN)
# What completes a plan for those who split handshakes: the others don't pay for it, and it is added to the same entry.
HANDSHAKE = FilePart(
    "handshake",
    _handshake,
    codec.handshake_values,
    codec.handshake_from_values,
    complete=lambda sites: bool(sites.code and not sites.missing),
    room="ssllatency.probes.handshake",
)
FACTS = FilePart(
    "facts",
    _facts,
    asdict,
    lambda values, _: read_facts(Field(values)),
    suffices=lambda facts: not facts.libraries,
    by_name=True,
)
NAMES = FilePart("names", _names, _names_values, _read_names)
PARTS: tuple[FilePart[Any], ...] = (FACTS, PLAN, CALLS, HANDSHAKE, NAMES)
