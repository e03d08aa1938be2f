# SPDX-License-Identifier: Apache-2.0
"""A Go executable: all that is read of it, each part when it is first asked for."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ssllatency.stacks.go.build_info import BuildInfo, build_info
from ssllatency.stacks.go.data import Data
from ssllatency.stacks.go.functions import Functions
from ssllatency.stacks.go.inlining import Inlining
from ssllatency.stacks.go.module_data import ModuleData, module_data
from ssllatency.stacks.go.run_time_types import Types

if TYPE_CHECKING:
    from ssllatency.elf.image import Image


class Program:
    """A Go executable, or a shared library with one. An attribute raises an ElfError, one sentence, where the part that it
    needs is missing, damaged or of a layout that isn't known."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self._data = Data(image)

    @cached_property
    def build_info(self) -> BuildInfo:
        """Version and modules; without any where the file doesn't say."""
        return build_info(self._data) or BuildInfo()

    @cached_property
    def module(self) -> ModuleData:
        """The place of the tables."""
        return module_data(self._data)

    @cached_property
    def functions(self) -> Functions:
        """The functions by name and address."""
        return Functions(self._data, self.module)

    @cached_property
    def types(self) -> Types:
        """The types that the program knows at run time."""
        return Types(self._data, self.module)

    @cached_property
    def inlining(self) -> Inlining:
        """The functions that are inlined, and where."""
        return Inlining(self._data, self.module, self.functions)
