# SPDX-License-Identifier: Apache-2.0
"""Python's data classes, without most of the work that they take when a module is brought in.

Python compiles up to six methods for each class then, which took an eighth of the processor time of a start, with its some
130 of them. Here `__init__`, `__eq__` and `__hash__` are compiled when each is first called, and a start makes objects of a
third of the classes. The other methods are functions of the fields' names. All do as those of dataclasses.dataclass do, but
for the text of an object that contains itself, which there is none of here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import partial
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
        if cls.__dict__.get(name) is None:  # Python has put None for the hash of a class with an __eq__
            setattr(cls, name, method)
    return cls


def _methods(cls: Any, fields: _Fields, frozen: bool) -> dict[str, Callable[..., Any] | None]:
    def __repr__(self: object) -> str:
        shown = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in fields if field.repr)
        return f"{self.__class__.__qualname__}({shown})"

    def compiled_later(name: str, text: Callable[[_Fields], str]) -> Callable[..., Any]:
        """A method that puts the compiled one into its own place when it is first called."""

        def method(self: object, *values: object, **named: object) -> Any:
            compiled = _compiled(cls, name, text(fields), fields)
            setattr(cls, name, compiled)
            return compiled(self, *values, **named)

        return method

    made = {
        "__init__": compiled_later("__init__", partial(_init, frozen=frozen, checked=hasattr(cls, "__post_init__"))),
        "__repr__": __repr__,
        "__eq__": compiled_later("__eq__", _eq),
        "__hash__": compiled_later("__hash__", _hash) if frozen else None,
    }
    return made | (_refusals(cls, {field.name for field in fields}) if frozen else {})


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


def _compiled(cls: type, name: str, text: str, fields: _Fields) -> Any:
    known: dict[str, Any] = {"__set": object.__setattr__, "__MISSING": MISSING}
    known |= {f"__default_{field.name}": field.default for field in fields}
    known |= {f"__new_{field.name}": field.default_factory for field in fields}
    exec(text, known)
    compiled = known[name]
    compiled.__qualname__, compiled.__module__ = f"{cls.__qualname__}.{name}", cls.__module__
    return compiled


def _init(fields: _Fields, frozen: bool, checked: bool) -> str:
    parameters, lines = ["self"], []
    for field in fields:
        if not field.init or field.kw_only or field.hash is not None:
            raise TypeError(f"{field.name}: a class with such a field takes Python's own dataclass")
        name = value = parameter = field.name
        if field.default_factory is not MISSING:
            parameter, value = f"{name}=__MISSING", f"__new_{name}() if {name} is __MISSING else {name}"
        elif field.default is not MISSING:
            parameter = f"{name}=__default_{name}"
        parameters.append(parameter)
        lines.append(f"__set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    lines.append("self.__post_init__()" if checked else "return")
    return f"def __init__({', '.join(parameters)}):\n " + "\n ".join(lines)


def _eq(fields: _Fields) -> str:
    same = f"{_values('self', fields)} == {_values('other', fields)}"
    return f"def __eq__(self, other):\n return {same} if other.__class__ is self.__class__ else NotImplemented"


def _hash(fields: _Fields) -> str:
    return f"def __hash__(self):\n return hash({_values('self', fields)})"


def _values(made: str, fields: _Fields) -> str:
    """The tuple of what is compared, as text."""
    return f"({''.join(f'{made}.{field.name}, ' for field in fields if field.compare)})"
