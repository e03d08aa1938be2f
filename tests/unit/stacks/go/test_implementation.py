# SPDX-License-Identifier: Apache-2.0
"""When a Go program counts as one with crypto/tls: by its functions, not by names that it has for other reasons."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fixtures.go_program import GoProgram
from tests.fixtures.go_samples import HANDSHAKE, LAYOUTS, MACHINES, leaf, program

from ssllatency.elf.image import Image
from ssllatency.elf.source import ElfSource
from ssllatency.stacks.implementations import Inside, tls_inside


def recognised(made: GoProgram) -> tuple[str, str]:
    """What is recognised in the program, which has no other TLS."""
    inside = tls_inside(Image("made", ElfSource.of(made.data(), "/srv/app"), ()))
    assert inside.implementations == ()
    return inside.traceable


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_by_its_handshake_with_the_version_of_go(layout: int, machine: str) -> None:
    for pie in (False, True):
        assert recognised(program(layout, machine, pie=pie)) == ("Go crypto/tls", LAYOUTS[layout])


def test_a_name_alone_is_none() -> None:
    """As a debugger has it, or the linker in a type's table of methods."""
    made = replace(program(), functions=[leaf("main.main", "x86-64")], lines=(f"path\t{HANDSHAKE}",))
    assert recognised(made) == ("", "")


def test_where_the_functions_can_not_be_read_the_name_counts() -> None:
    made = program()
    for change in ({("pclntab", 0): b"\xfa"}, {("moduledata", 0): bytes(8)}, {("functab", 4): b"\xff" * 4}):
        assert recognised(replace(made, changes=change)) == ("Go crypto/tls", "go1.26.8")


def test_an_openssl_linked_into_it_is_named_as_what_is_not_traced() -> None:
    """Without symbols. It's no reason to say that of Go, whose functions are found."""
    made = replace(program(), lines=("path\t../ssl/ssl_lib.c\0",))
    inside = tls_inside(Image("made", ElfSource.of(made.data(), "/srv/app"), ()))
    assert inside == Inside((("OpenSSL", ""),), ("Go crypto/tls", "go1.26.8"))
