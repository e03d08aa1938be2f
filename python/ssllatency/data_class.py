# SPDX-License-Identifier: Apache-2.0
"""Python's data classes, without most of the work that they take when a module is brought in.

Python compiles up to six methods for each class then, which took an eighth of the processor time of a start, with its some
130 of them. Here only `__init__` is compiled, when the first object is made, and a start makes objects of a third of the
classes. The other methods are functions of the fields' names. All do as those of dataclasses.dataclass do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, *, frozen: bool = False) -> Any:
        """Makes a data class of a class with annotated fields. `frozen`: they can't be set, and it has a hash."""
        return partial(_made, frozen=frozen) if cls is None else _made(cls, frozen)


_Fields = Sequence[Field[Any]]


def _made(cls: type, frozen: bool) -> type:
    dataclasses.dataclass(init=False, repr=False, eq=False)(cls)  # has its fields known
    fields = dataclasses.fields(cls)
    for name, method in _methods(cls, fields, frozen).items():
        if name not in cls.__dict__:
            setattr(cls, name, method)
    return cls


def _methods(cls: type, fields: _Fields, frozen: bool) -> dict[str, Callable[..., Any] | None]:
    values = _values(fields)

    def __repr__(self: object) -> str:
        shown = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields if field.repr)
        return f"{self.__class__.__qualname__}({shown})"

    def __eq__(self: object, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: object) -> int:
        return hash(values(self))

    made = {
        "__init__": _init(cls, fields, frozen),
        "__repr__": __repr__,
        "__eq__": __eq__,
        "__hash__": __hash__ if frozen else None,
    }
    return made | (_refusals(cls, {field.name for field in fields}) if frozen else {})


def _values(fields: _Fields) -> Callable[[object], tuple[Any, ...]]:
    """Return a function that returns the values by which objects are compared."""
    names = [field.name for field in fields if field.compare]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda made: tuple(getattr(made, name) for name in names)


def _refusals(cls: Any, names: set[str]) -> dict[str, Callable[..., None]]:
    def refuse(made: object, name: str, what: str) -> None:
        if type(made) is cls or name in names:
            raise FrozenInstanceError(f"cannot {what} field {name!r}")

    def __setattr__(self: object, name: str, value: object) -> None:
        refuse(self, name, "assign to")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: object, name: str) -> None:
        refuse(self, name, "delete")
        super(cls, self).__delattr__(name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


def _init(cls: Any, fields: _Fields, frozen: bool) -> Callable[..., None]:
    """An `__init__` that puts the compiled one into its own place when it is first called."""

    def __init__(self: object, *values: object, **named: object) -> None:
        cls.__init__ = compiled = _compiled_init(cls, fields, frozen)
        compiled(self, *values, **named)

    return __init__


def _compiled_init(cls: type, fields: _Fields, frozen: bool) -> Any:
    known: dict[str, Any] = {"__set": object.__setattr__, "__MISSING": MISSING}
    parameters, lines = ["self"], []
    for field in fields:
        if not field.init or field.kw_only:
            raise TypeError(f"{cls.__qualname__}.{field.name}: a class with such a field takes Python's own dataclass")
        name = value = parameter = field.name
        if field.default_factory is not MISSING:
            known[f"__new_{name}"] = field.default_factory
            parameter, value = f"{name}=__MISSING", f"__new_{name}() if {name} is __MISSING else {name}"
        elif field.default is not MISSING:
            known[f"__default_{name}"] = field.default
            parameter = f"{name}=__default_{name}"
        parameters.append(parameter)
        lines.append(f"__set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    lines.append("self.__post_init__()" if hasattr(cls, "__post_init__") else "return")
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines), known)
    compiled = known["__init__"]
    compiled.__qualname__, compiled.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    return compiled
