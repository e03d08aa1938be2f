# SPDX-License-Identifier: Apache-2.0
"""Findings about a file, part by part: how each part is made of an image, written down, and read again.

Nothing here brings in the ELF parser or the decoder, nor what only some of the parts need.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ssllatency.code.machine import BASELINE, Emulation
from ssllatency.facts import FileFacts
from ssllatency.fields import Field, FieldError
from ssllatency.probes import codec
from ssllatency.probes.contents import file_facts, read_facts
from ssllatency.probes.plan import ImagePlan

if TYPE_CHECKING:
    from ssllatency.elf.image import Image
    from ssllatency.probes.handshake.plan import HandshakePlan
    from ssllatency.stacks.names import Names

T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """The settings by which findings about one file differ. The first three are arguments of plan_image(); `machine` is the
    processor whose code counts, "" for any."""

    return_probes: bool = True
    emulation: Emulation = BASELINE
    branch_exits: bool = True
    machine: str = ""

    @property
    def key(self) -> tuple[object, ...]:
        """The values that an entry's name depends on."""
        return self.return_probes, self.emulation, self.branch_exits, self.machine


@dataclass(frozen=True)
class FilePart(Generic[T]):
    """One thing that can be found out about a file.

    `to_values` makes plain JSON values of it; `from_values` checks these in full, with the size of the file, and raises
    FieldError. `complete`: whether a debug file that comes later could add nothing. `suffices`: whether it shows that no
    other part will be asked for. `by_name`: it depends on what the file is called, too. `rooms`: packages that no other part is
    made with.
    """

    name: str
    make: Callable[[Image, Settings], T]
    to_values: Callable[[T], dict[str, Any]]
    from_values: Callable[[object, int], T]
    complete: Callable[[T], bool] = lambda _: False
    suffices: Callable[[T], bool] = lambda _: False
    by_name: bool = False
    rooms: tuple[str, ...] = ()

    def key(self, path: str) -> str:
        """The key of it in the entry about a file that is called as at `path`."""
        return f"{self.name} of {path.rpartition('/')[2]}" if self.by_name else self.name

    def read(self, values: object, file_size: int) -> T:
        """Read what `to_values` turned into `values`. FieldError for anything else."""
        try:
            return self.from_values(values, file_size)
        except (ValueError, RecursionError):
            raise FieldError(self.name) from None


def _plan(image: Image, settings: Settings) -> ImagePlan:
    from ssllatency.probes.planner import plan_image

    return plan_image(
        image, return_probes=settings.return_probes, emulation=settings.emulation, branch_exits=settings.branch_exits
    )


def _handshake_plan(image: Image, settings: Settings) -> HandshakePlan:
    from ssllatency.probes.handshake.phases import plan_handshake

    return plan_handshake(image, emulation=settings.emulation)


def _handshake_values(plan: HandshakePlan) -> dict[str, Any]:
    from ssllatency.probes.handshake.codec import to_values

    return to_values(plan)


def _read_handshake_plan(values: object, file_size: int) -> HandshakePlan:
    from ssllatency.probes.handshake.codec import from_values

    return from_values(values, file_size)


def _names(image: Image, _settings: Settings) -> Names:
    from ssllatency.stacks.registry import stack_of

    return stack_of(image).names(image)


def _names_values(names: Names) -> dict[str, Any]:
    from ssllatency.probes.cache.names import to_values

    return to_values(names)


def _read_names(values: object, _file_size: int) -> Names:
    from ssllatency.probes.cache.names import from_values

    return from_values(values)


def _facts(image: Image, settings: Settings) -> FileFacts:
    return file_facts(image, settings.machine)


def _is_complete(plan: ImagePlan | HandshakePlan) -> bool:
    return bool(plan.kind and not plan.missing)


PLAN = FilePart("plan", _plan, codec.to_values, codec.from_values, _is_complete)
HANDSHAKE_PLAN = FilePart(
    "handshake",
    _handshake_plan,
    _handshake_values,
    _read_handshake_plan,
    _is_complete,
    rooms=("ssllatency.probes.handshake", "ssllatency.stacks.openssl.handshake"),
)
FACTS = FilePart(
    "facts",
    _facts,
    asdict,
    lambda values, _: read_facts(Field(values)),
    suffices=lambda facts: not facts.libraries,
    by_name=True,
)
NAMES = FilePart("names", _names, _names_values, _read_names, rooms=("ssllatency.stacks.openssl.names",))
PARTS: tuple[FilePart[Any], ...] = (FACTS, PLAN, HANDSHAKE_PLAN, NAMES)
