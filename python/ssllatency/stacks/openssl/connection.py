# SPDX-License-Identifier: Apache-2.0
"""A library's accessors, followed for a plain connection: which field of it each of them returns, stores or passes on.

Since OpenSSL 3.2 an SSL begins with its type, 0 for a connection that isn't QUIC's, and the accessors look at it; before, it
begins with the version. SSL_version shows which of the two a library has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ssllatency.code.evaluate import followed_in
from ssllatency.code.evaluation import Evaluation
from ssllatency.code.returns import returned_address
from ssllatency.code.values import Assumptions, LoadedField, SymbolicAddress, Value
from ssllatency.elf.image import Image

_CONNECTION, _OUTPUT = SymbolicAddress("argument", 0), SymbolicAddress("output", 0)
_FIRST = (0,)
_MAX_OFFSET = 1 << 16
_METHODS = ("TLS_method", "TLS_server_method", "TLS_client_method")


class UnclearError(Exception):
    """The code doesn't show a field, or leaves room for doubt; the text says how, a phrase."""


class Accessors:
    """The accessors of `image`. UnclearError from the constructor where even the version can't be told."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self._field_values: dict[tuple[int, ...], int] = {}
        fields = {field for field in self.follow("SSL_version").results if isinstance(field, LoadedField)}
        fields = {field for field in fields if field.path != _FIRST} or fields
        self.version = only(fields, "SSL_version doesn't simply return it", 4)
        if self.version.path != _FIRST:
            self._field_values = {_FIRST: 0}

    def follow(self, name: str, **arguments: Value) -> Evaluation:
        """The evaluation of the function, called with the connection and these further arguments."""
        return self.follow_in(name, Assumptions(arguments))

    def follow_in(self, name: str, case: Assumptions) -> Evaluation:
        """The evaluation of the function in this case, to which the connection is added."""
        function = self.image.function(name)
        if function is None:
            raise UnclearError(f"no function is found to be {name}" if self.image.unnamed else f"the library has no {name}")
        return self._follow(function.address, case)

    def _follow(self, address: int, case: Assumptions) -> Evaluation:
        arguments, fields = {"rdi": _CONNECTION, **case.arguments}, {**self._field_values, **case.fields}
        return followed_in(self.image, address, Assumptions(arguments, fields, case.calls))

    def returned(self, *names: str, size: int = 8, depth: int = 1) -> LoadedField:
        """The one field that the first existing function of `names` returns, `depth` pointers from its argument."""
        name = next((candidate for candidate in names if self.image.function(candidate)), names[0])
        fields = (field for field in self.follow(name).results if isinstance(field, LoadedField))
        return only(fields, f"{name} doesn't simply return it", size, depth)

    def passed(self, name: str) -> LoadedField:
        """The one pointer in the connection that the function passes to another function."""
        arguments = (call.arguments[0] for call in self.follow(name).calls)
        fields = (field for field in arguments if isinstance(field, LoadedField) and len(field.path) == 1)
        return only(fields, f"{name} doesn't simply pass it on", 8)

    def control(self, command: int) -> Evaluation:
        """Follow a command of SSL_ctrl, which the connection's method carries out."""
        calls = self.follow("SSL_ctrl", rsi=command).calls
        slots = {call.target.path[1] for call in calls if isinstance(call.target, LoadedField) and len(call.target.path) == 2}
        functions = (self.image.function(name) for name in _METHODS)
        tables = {returned_address(self.image, function.address) for function in functions if function}
        targets = {table and self.image.pointer(table + slot) for table in tables for slot in slots}
        target = targets.pop() if len(targets) == 1 else None
        if target is None:
            raise UnclearError("SSL_ctrl doesn't lead to one function")
        return self._follow(target, Assumptions({"rsi": command, "rcx": _OUTPUT}))

    def stored(self, evaluation: Evaluation, problem: str) -> LoadedField:
        """The one number in a structure beside the connection that is stored for the caller."""
        values = {value for place, value in evaluation.stores if place.base == _OUTPUT.base}
        if not all(isinstance(value, LoadedField) for value in values):
            raise UnclearError(problem)
        return only((field for field in values if isinstance(field, LoadedField)), problem, 4)

    def stored_by(self, name: str) -> LoadedField:
        """The one number that the function stores for its caller, by its second argument."""
        return self.stored(self.follow(name, rsi=_OUTPUT), f"{name} doesn't simply store it")


def only(fields: Iterable[LoadedField], problem: str, size: int = 0, depth: int = 0) -> LoadedField:
    """The only one of the fields, if its offsets are possible in a structure, and its size and depth are these (0: any)."""
    distinct = set(fields)
    field = distinct.pop() if len(distinct) == 1 else None
    if field is None or not field.whole or not _plausible(field.path):
        raise UnclearError(problem)
    if size not in (0, field.size) or depth not in (0, len(field.path)):
        raise UnclearError(problem)
    return field


def _plausible(path: Sequence[int]) -> bool:
    return all(0 <= offset < _MAX_OFFSET for offset in path)
