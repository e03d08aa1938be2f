# SPDX-License-Identifier: Apache-2.0
"""s2n-tls: what the code of its functions shows of connections and of its error, in made-up files and in a real program."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests import foreign
from tests.fixtures import build
from tests.fixtures.assembled_aarch64 import assemble, function

from ssllatency.code.values import FieldPath
from ssllatency.elf.image import Image
from ssllatency.engines.base import TracedImage
from ssllatency.engines.sessions.handshake_sites import places_of, watched
from ssllatency.model.handshakes import Label
from ssllatency.probes.contents import file_facts
from ssllatency.probes.handshake.phases import plan_handshake
from ssllatency.probes.planner import plan_image
from ssllatency.stacks.names import pack
from ssllatency.stacks.registry import libraries_in, stack_of
from ssllatency.stacks.s2n.connection import connection_offsets, label_paths
from ssllatency.stacks.s2n.names import names
from ssllatency.stacks.s2n.stack import S2n
from ssllatency.stacks.s2n.thread_local import errno_place

SOURCE = str(Path(__file__).with_name("s2n.c"))
LIBRARY = 100  # the kernel side's number of its errors
STYLES = ("plain", "cet", "size", "frame-pointer")


def made_up(folder: Path, *flags: str) -> Path:
    """A program with functions that are called so."""
    return build.program(folder, "server", SOURCE, "-DWHICH_BIT=4", *flags)


@pytest.mark.parametrize("style", STYLES)
def test_the_error_lies_where_the_program_has_it(tmp_path: Path, style: str) -> None:
    path = made_up(tmp_path, *build.STYLES[style])
    distance = int(subprocess.run([path], capture_output=True, text=True, check=True).stdout)
    assert connection_offsets(Image.open(path))["rwstate"] == distance > 0


@pytest.mark.parametrize(
    ("code", "distance"),
    [
        ("mrs x0, tpidr_el0; add x0, x0, #1, lsl #12; add x0, x0, #0x10; ret", 0x1010),
        ("bti c; mrs x0, tpidr_el0; add x0, x0, #0, lsl #12; add x0, x0, #24; ret", 24),
        ("mrs x1, tpidr_el0; add x0, x1, #24; ret", None),
        ("mrs x0, tpidr_el0; add x0, x0, #24; bl s2n_errno_location; ret", None),
    ],
)
def test_the_error_in_code_for_aarch64(tmp_path: Path, code: str, distance: int | None) -> None:
    image = assemble(tmp_path, function("s2n_errno_location", code.replace("; ", "\n"))).image
    assert errno_place(image) == distance


def test_in_a_shared_library_it_lies_anywhere(tmp_path: Path) -> None:
    offsets = connection_offsets(Image.open(build.library(tmp_path, "libs2n.so.1", (SOURCE,), "-DWHICH_BIT=1")))
    assert offsets.keys() == {"server", "shutdown", "state"}


@pytest.mark.parametrize("style", ["plain", "cet"])
def test_connections_are_read_by_its_functions(tmp_path: Path, style: str) -> None:
    image = Image.open(made_up(tmp_path, *build.STYLES[style]))
    offsets = connection_offsets(image)
    del offsets["rwstate"]
    assert offsets == {"server": 16, "shutdown": 64, "state": 120}
    assert label_paths(image) == {
        "version": FieldPath((20,), 1),
        "cipher": FieldPath((24, 0, 16), 2),
        "server_name": FieldPath((128,), 0),
        "alpn": FieldPath((192,), 0),
        "alert": FieldPath((80, 1), 1),
        "resumed": FieldPath((32,), 4, 2),
        "credentials": FieldPath((36,), 4),
        "descriptor": FieldPath((8, 0), 4),
        "bio_type": FieldPath((1,), 1, 4),
    }


def test_handshakes_whose_end_is_unknown_are_not_followed(tmp_path: Path) -> None:
    shared, own = build.library(tmp_path, "libs2n.so.1", (SOURCE,), "-DWHICH_BIT=1"), made_up(tmp_path)
    plans = [plan_image(Image.open(path)) for path in (shared, own)]
    of_shared, of_own = watched([TracedImage(plan, plan.path, ()) for plan in plans], [])
    assert of_shared.plan.operations == ()
    [missing] = [one for one in of_shared.plan.missing if one.operation == "s2n_negotiate"]
    assert missing.reason.startswith("s2n_errno_location doesn't show where the error of a call lies")
    assert {planned.operation for planned in of_own.plan.operations} == {"s2n_negotiate", "s2n_connection_wipe"}


def test_errors_have_the_names_that_its_function_gives(tmp_path: Path) -> None:
    found = names(Image.open(made_up(tmp_path)))
    assert {reason: text for (_, reason), text in found.reasons.items() if reason < 2048} == {
        4 << 8: "alert",
        5 << 8: "encrypt",
        (5 << 8) + 1: "bad message",
        (7 << 8) + 1: "misuse",
    }
    assert found.reason(pack(LIBRARY, 2048 + 48, found.major)) == "alert received: unknown CA"


@pytest.fixture(scope="module")
def program() -> Image:
    """A real one, with AWS-LC in it."""
    return Image.open(foreign.needed(foreign.rust_server("s2n")))


def test_a_real_program_is_recognised_once(program: Image) -> None:
    stack = stack_of(program)
    assert isinstance(stack, S2n)
    assert libraries_in(program) == ("libs2n",)
    facts = file_facts(program)
    assert (facts.libraries, facts.version, facts.obstacle) == (("libs2n",), "s2n-tls", "")


def test_its_functions_are_planned(program: Image) -> None:
    plan = plan_image(program)
    roles = {planned.operation: {probe.role.name for probe in planned.probes} for planned in plan.operations}
    assert {name for name, those in roles.items() if those == {"ENTRY"}} == {"s2n_connection_free", "s2n_connection_wipe"}
    assert {"s2n_negotiate", "s2n_recv", "s2n_send", "s2n_shutdown"} <= roles.keys()
    assert {missing.reason for missing in plan.missing} == {"not in this library"}
    assert plan.offsets.rwstate
    assert None not in (plan.offsets.server, plan.offsets.shutdown, plan.offsets.state)


def test_its_handshakes_have_labels(program: Image) -> None:
    shown = places_of(replace(plan_image(program), handshake=plan_handshake(program)))
    known = (Label.VERSION, Label.CIPHER, Label.RESUMED, Label.GROUP, Label.SNI, Label.ALPN, Label.PORT, Label.PEER)
    assert {*known} <= shown
    assert not {Label.SIGNATURE, Label.CLIENT_CERTIFICATE} & shown


def test_its_errors_have_names(program: Image) -> None:
    texts = {*names(program).reasons.values()}
    assert {"cipher not supported", "protocol version unsupported", "bad message"} <= texts
