# SPDX-License-Identifier: Apache-2.0
"""The house's data classes do as Python's own do, and compile nothing before it is called."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import os
import pickle
import pkgutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import field
from functools import cached_property
from importlib import import_module
from math import nan
from typing import Any, ClassVar

import pytest

import ssllatency
from ssllatency import data_class

OWN, PYTHONS = data_class.dataclass, dataclasses.dataclass


def classes(dataclass: Any) -> list[type]:
    """Data classes of each kind that there is, made by a decorator."""

    @dataclass(frozen=True)
    class Empty:
        """Without a field."""

    @dataclass(frozen=True)
    class One:
        """One field."""

        value: float

    @dataclass(frozen=True)
    class Point:
        """Values, of which one isn't compared and one isn't shown."""

        x: int
        y: int = 2
        names: tuple[str, ...] = field(default=(), compare=False)
        more: dict[str, int] = field(default_factory=dict, compare=False, repr=False)
        KIND: ClassVar[str] = "a point"

        @cached_property
        def sum(self) -> int:
            """Kept once it is asked for."""
            return self.x + self.y

    @dataclass(frozen=True)
    class Higher(Point):
        """More fields than its base, and a check."""

        y: int = 3
        z: int = 4

        def __post_init__(self) -> None:
            if self.z < 0:
                raise ValueError(self.z)

    @dataclass
    class Changing:
        """Fields that are set; no hash."""

        count: int = 0
        seen: list[int] = field(default_factory=list)

    @dataclass(frozen=True)
    class Particular:
        """Methods of its own."""

        text: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Particular) and self.text.lower() == other.text.lower()

        def __hash__(self) -> int:
            return hash(self.text.lower())

        def __repr__(self) -> str:
            return self.text

    @dataclass(frozen=True)
    class Comparing:
        """A comparison of its own, and no hash."""

        text: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Comparing)

    return [Empty, One, Point, Higher, Changing, Particular, Comparing]


CALLS: list[tuple[int, Callable[[Any], Any]]] = [
    (0, lambda made: made()),
    (0, lambda made: made(1)),
    (1, lambda made: made(nan)),
    (1, lambda made: made()),
    (1, lambda made: made(value=1.5)),
    (2, lambda made: made(1)),
    (2, lambda made: made(1, y=5, names=("a",))),
    (2, lambda made: made(1, more={"a": 1}).more),
    (2, lambda made: made(1, 2, 3, 4, 5)),
    (2, lambda made: made(x=1, z=5)),
    (2, lambda made: made(1) == made(1, 2, ("other",))),
    (2, lambda made: made(1) == made(2)),
    (2, lambda made: made(1) == (1, 2)),
    (2, lambda made: [made(1, y) == made(y) for y in (1, 2, 1, 2)]),
    (2, lambda made: [hash(made(1)) == hash(made(1, y)) for y in (1, 2, 3)]),
    (3, lambda made: ({made(1), made(1), made(2)}, {made.__base__(1): 1})),
    (2, lambda made: hash(made(1, names=("a",)))),
    (2, lambda made: setattr(made(1), "x", 5)),
    (2, lambda made: setattr(made(1), "other", 5)),
    (2, lambda made: delattr(made(1), "x")),
    (2, lambda made: (made(1).sum, made(1).KIND)),
    (2, lambda made: dataclasses.replace(made(1), y=7)),
    (2, lambda made: dataclasses.asdict(made(1))),
    (2, lambda made: dataclasses.astuple(copy.deepcopy(made(1)))),
    (2, lambda made: [each.name for each in dataclasses.fields(made)]),
    (2, lambda made: made.__match_args__),
    (2, lambda made: made.more),
    (3, lambda made: made(1)),
    (3, lambda made: made(1, z=-1)),
    (3, lambda made: made(1) == made.__base__(1, 3)),
    (3, lambda made: setattr(made(1), "x", 5)),
    (4, lambda made: made()),
    (4, lambda made: made().seen is made().seen),
    (4, lambda made: hash(made())),
    (4, lambda made: setattr(made(), "count", 5)),
    (4, lambda made: made(1, [2]) == made(1, [2])),
    (5, lambda made: (made("a") == made("A"), hash(made("A")), repr(made("A")))),
    (6, lambda made: (made("a") == made("b"), hash(made("a")) == hash(made("b")), hash(made("a")) == hash(made("a")))),
]


def outcome(decorator: Any, place: int, call: Callable[[Any], Any]) -> tuple[str, str]:
    try:
        made = call(classes(decorator)[place])
    except Exception as error:
        return type(error).__name__, str(error)
    return type(made).__name__, repr(made)


@pytest.mark.parametrize(("place", "call"), CALLS)
def test_they_do_as_pythons_own(place: int, call: Callable[[Any], Any]) -> None:
    assert outcome(OWN, place, call) == outcome(PYTHONS, place, call)


def test_a_field_that_they_cannot_have_is_refused() -> None:
    @OWN
    class Odd:
        """A field that isn't given."""

        count: int = field(default=0, init=False)

    with pytest.raises(TypeError, match="takes Python's own dataclass"):
        Odd()


def test_what_is_pickled_or_copied_is_equal() -> None:
    from ssllatency.facts import FileFacts

    made = FileFacts(name="libssl")
    assert pickle.loads(pickle.dumps(made)) == copy.copy(made) == made


def house_classes() -> list[Any]:
    """The package's data classes that aren't Python's own."""
    names = [name for _, name, _ in pkgutil.walk_packages(ssllatency.__path__, "ssllatency.") if not name.endswith("__main__")]
    makers = [module for module in map(import_module, names) if vars(module).get("dataclass") is OWN]
    return [cls for module in makers for cls in vars(module).values() if getattr(cls, "__module__", "") == module.__name__]


def test_each_class_of_the_house_takes_its_fields() -> None:
    """Each compiles: what is wrong in a definition isn't told when the module is brought in."""
    made = [cls for cls in house_classes() if isinstance(cls, type) and "__dataclass_fields__" in vars(cls)]
    for cls in made:
        fields = dataclasses.fields(cls)
        compiled = data_class._compiled(cls, "__init__", data_class._init(fields, frozen=False, checked=False), fields)
        assert list(inspect.signature(compiled).parameters)[1:] == [each.name for each in fields], cls
    assert len(made) > 300


def test_a_start_compiles_few_methods() -> None:
    """Those of classes that Python makes, and of the first objects. Since 3.13 Python also compiles a text for each class that
    defines none."""
    code = """
import builtins
execute, texts = builtins.exec, []
def counted(source, *names):
    if isinstance(source, str) and " def " in f" {source}":
        texts.append(source)
    return execute(source, *names)
builtins.exec = counted
import sys, ssllatency.cli.live.handshakes, ssllatency.tracing.follow, ssllatency.tracing.handshake_sources
print(len(texts))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert int(done.stdout) < 60
