# SPDX-License-Identifier: Apache-2.0
"""What can be found out about a file, part by part: how each part is made of an image, written down, and read again.

Nothing here brings in the ELF parser or the decoder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ssllatency.code.machine import BASELINE, Emulation
from ssllatency.facts import FileFacts
from ssllatency.fields import Field, FieldError
from ssllatency.openssl.names.names import Names
from ssllatency.probes import codec
from ssllatency.probes.cache import names as names_codec
from ssllatency.probes.contents import file_facts, read_facts
from ssllatency.probes.handshake import codec as handshake_codec
from ssllatency.probes.handshake.plan import HandshakePlan
from ssllatency.probes.plan import ImagePlan

if TYPE_CHECKING:
    from ssllatency.elf.image import Image

T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """What the findings about one file differ by. The first three are arguments of plan_image(); `machine` is the processor
    whose code counts, "" for any."""

    return_probes: bool = True
    emulation: Emulation = BASELINE
    branch_exits: bool = True
    machine: str = ""

    @property
    def key(self) -> tuple[object, ...]:
        """What an entry's name depends on."""
        return self.return_probes, self.emulation, self.branch_exits, self.machine


@dataclass(frozen=True)
class Part(Generic[T]):
    """One thing that can be found out about a file.

    `to_values` makes plain JSON values of it; `from_values` checks these in full, with the size of the file, and raises
    FieldError. `complete`: whether a debug file that comes later could add nothing. `suffices`: whether it shows that no
    other part will be asked for. `by_name`: it depends on what the file is called, too.
    """

    name: str
    make: Callable[[Image, Settings], T]
    to_values: Callable[[T], dict[str, Any]]
    from_values: Callable[[object, int], T]
    complete: Callable[[T], bool] = lambda _: False
    suffices: Callable[[T], bool] = lambda _: False
    by_name: bool = False

    def key(self, path: str) -> str:
        """What it is kept by in the entry about a file that is called as at `path`."""
        return f"{self.name} of {path.rpartition('/')[2]}" if self.by_name else self.name

    def read(self, values: object, file_size: int) -> T:
        """What `to_values` turned into `values`. FieldError for anything else."""
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


def _names(image: Image, _settings: Settings) -> Names:
    from ssllatency.openssl.names.library import names

    return names(image)


def _facts(image: Image, settings: Settings) -> FileFacts:
    return file_facts(image, settings.machine)


def _is_complete(plan: ImagePlan | HandshakePlan) -> bool:
    return bool(plan.kind and not plan.missing)


PLAN = Part("plan", _plan, codec.to_values, codec.from_values, _is_complete)
HANDSHAKE_PLAN = Part("handshake", _handshake_plan, handshake_codec.to_values, handshake_codec.from_values, _is_complete)
FACTS = Part(
    "facts",
    _facts,
    asdict,
    lambda values, _: read_facts(Field(values)),
    suffices=lambda facts: not facts.libraries,
    by_name=True,
)
NAMES = Part("names", _names, names_codec.to_values, lambda values, _: names_codec.from_values(values))
