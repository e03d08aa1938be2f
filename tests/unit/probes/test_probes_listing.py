# SPDX-License-Identifier: Apache-2.0
"""The words and the document of `ssllatency probes`, and the plan's way to JSON and back."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest
from tests import schema

from ssllatency.fields import FieldError
from ssllatency.probes.codec import from_values, to_values
from ssllatency.probes.costs import HitCosts
from ssllatency.probes.listing import chosen, render, to_document
from ssllatency.probes.plan import (
    NOT_IN_LIBRARY,
    CodeRange,
    Cost,
    FilePlan,
    MissingOperation,
    OperationPlan,
    Probe,
    Role,
    SslOffsets,
)

SIZE = 0x10000
READ = OperationPlan(
    "SSL_read",
    0x5470,
    131,
    "dynamic symbol",
    (
        Probe(0x5486, 0x5486, Role.ENTRY, "js 0x54b7", Cost.EMULATED, 24),
        Probe(0x54A8, 0x54A8, Role.EXIT, "jne 0x54ee", Cost.EMULATED, 24, "rax"),
        Probe(0x54B6, 0x54B6, Role.EXIT, "ret", Cost.SINGLE_STEPPED, 0, "rax", True),
    ),
)
HANDSHAKE = OperationPlan(
    "SSL_do_handshake",
    0x7640,
    271,
    "debug file",
    (Probe(0x7640, 0x7640, Role.RETURN, "push rbx", Cost.EMULATED),),
    "/usr/lib/debug/.build-id/a9/394c.debug",
)
PLAN = FilePlan(
    "/usr/lib/libssl.so.3",
    "a9394c",
    "OpenSSL 3.0.19 27 Jan 2026",
    "libssl",
    (HANDSHAKE, READ),
    (
        MissingOperation("SSL_write_ex2", NOT_IN_LIBRARY),
        MissingOperation("SSL_shutdown", "it ends in a call that can't be followed"),
        MissingOperation("SSL_sendfile", NOT_IN_LIBRARY),
    ),
    SslOffsets(rwstate=40, rbio=16),
    (CodeRange(0x5470, 0x57, "ab" * 32), CodeRange(0x7640, 16, "cd" * 32)),
)
TEXT = """\
/usr/lib/libssl.so.3
  holds      libssl
  version    OpenSSL 3.0.19 27 Jan 2026
  build-id   a9394c
  debug file /usr/lib/debug/.build-id/a9/394c.debug
  offsets    rwstate 40, rbio 16
  chosen     return probe for 1, exit sites for 1
  ns a hit   optimised 240, emulated 500, single-stepped 5,000, a return +300, after other work +140 (on the reference machine)

OPERATION         FOUND           ADDRESS  NS/CALL  ROLE          OFFSET  COST            INSTRUCTION  NOTE
SSL_do_handshake  debug file       0x7640      800  return probe  0x7640  emulated        push rbx
SSL_read          dynamic symbol   0x5470     5500  entry         0x5486  emulated        js 0x54b7    24 below
                                                    exit          0x54a8  emulated        jne 0x54ee   value in rax, 24 below
                                                    exit          0x54b6  single-stepped  ret          value in rax, shared

Not probed:
  not in this library: SSL_write_ex2, SSL_sendfile
  it ends in a call that can't be followed: SSL_shutdown
"""


def test_text() -> None:
    assert render([PLAN]) == TEXT


def test_costs_of_this_machine() -> None:
    here = HitCosts(optimised=1, emulated=10, single_stepped=100, returning=1000, after_work=5)
    text = render([PLAN], costs=here)
    words = "optimised 1, emulated 10, single-stepped 100, a return +1,000, after other work +5 (measured on this machine)"
    assert f"  ns a hit   {words}\n" in text
    document = to_document([PLAN], costs=here)
    assert document["hit_ns"] == {**asdict(here), "measured_here": True}
    assert [operation["cost_ns"] for operation in document["files"][0]["operations"]] == [1010, 110]
    assert [operation["cost_ns"] for operation in to_document([PLAN])["files"][0]["operations"]] == [800, 5500]


def test_text_where_the_kernel_has_sessions() -> None:
    text = render([PLAN], sessions=True)
    assert text.replace(" ", "") == TEXT.replace("return probe", "session").replace(" ", "")


@pytest.mark.parametrize(
    ("roles", "without", "with_sessions"),
    [
        ((Role.RETURN,), "return probe", "session"),
        ((Role.ENTRY, Role.EXIT), "exit sites", "exit sites"),
        ((Role.ENTRY,), "entry only", "entry only"),
    ],
)
def test_words_for_what_was_chosen(roles: tuple[Role, ...], without: str, with_sessions: str) -> None:
    plan = OperationPlan("SSL_free", 0, 1, "", tuple(Probe(0, 0, role, "nop", Cost.EMULATED) for role in roles))
    assert (chosen(plan, sessions=False), chosen(plan, sessions=True)) == (without, with_sessions)


def test_several_files_and_none() -> None:
    empty = FilePlan("/bin/true", "", "", "", (), ())
    text = render([PLAN, empty])
    assert text.startswith(TEXT + "\n/bin/true\n")
    assert "no function that ssllatency knows" in text
    assert render([]) == "No file with TLS functions was found.\n"


def test_long_lists_are_wrapped() -> None:
    many = tuple(MissingOperation(f"operation_with_a_name_{number}", NOT_IN_LIBRARY) for number in range(20))
    text = render([FilePlan("/x", "", "", "libssl", (), many)])
    assert max(map(len, text.splitlines())) <= 100
    assert all(each.operation in text for each in many)


def test_document() -> None:
    document = json.loads(json.dumps(to_document([PLAN])))
    schema.check(document)
    assert document["schema"] == "ssllatency-probes/1"
    (file,) = document["files"]
    assert [operation["cost_ns"] for operation in file["operations"]] == [800, 5500]
    assert [operation["chosen"] for operation in file["operations"]] == ["return probe", "exit sites"]
    (file_of_sessions,) = to_document([PLAN], sessions=True)["files"]
    assert [operation["chosen"] for operation in file_of_sessions["operations"]] == ["session", "exit sites"]
    assert file["operations"][1]["probes"][1] == {
        "offset": 0x54A8,
        "address": 0x54A8,
        "role": "exit",
        "instruction": "jne 0x54ee",
        "cost": "emulated",
        "stack_delta": 24,
        "return_register": "rax",
        "shared": False,
        "keeps_length": False,
        "condition": "",
        "leaving": "both",
        "taken_value": None,
        "other_value": None,
        "passed": 0,
        "fails": False,
        "result_slots": [],
    }
    assert file["missing"][0] == {"operation": "SSL_write_ex2", "reason": NOT_IN_LIBRARY}


def test_round_trip_through_json() -> None:
    assert from_values(json.loads(json.dumps(to_values(PLAN))), file_size=SIZE) == PLAN


Change = Callable[[dict[str, Any]], object]
DAMAGE: dict[str, Change] = {
    "the document": lambda values: values.pop("kind"),
    "the document ": lambda values: values.update(more=1),
    "kind": lambda values: values.update(kind="libtls"),
    "path": lambda values: values.update(path=None),
    "version": lambda values: values.update(version="x" * 5000),
    "operations": lambda values: values.update(operations={}),
    "operations[2]": lambda values: values["operations"].append([]),
    "operations[0].operation": lambda values: values["operations"][0].update(operation="system"),
    "operations[0].address": lambda values: values["operations"][0].update(address=-1),
    "operations[0].size": lambda values: values["operations"][0].update(size="271"),
    "operations[0].probes[1]": lambda values: values["operations"][0]["probes"].append(None),
    "operations[1].probes[0].offset": lambda values: values["operations"][1]["probes"][0].update(offset=SIZE),
    "operations[1].probes[0].offset ": lambda values: values["operations"][1]["probes"][0].update(offset=True),
    "operations[1].probes[0].stack_delta": lambda values: values["operations"][1]["probes"][0].update(stack_delta=1 << 40),
    "operations[1].probes[0].role": lambda values: values["operations"][1]["probes"][0].update(role="session"),
    "operations[1].probes[1].leaving": lambda values: values["operations"][1]["probes"][1].update(leaving="none"),
    "operations[1].probes[1].condition": lambda values: values["operations"][1]["probes"][1].update(condition="jump"),
    "operations[1].probes": lambda values: values["operations"][1]["probes"][1].update(leaving="taken"),
    "operations[1].probes[1].taken_value": lambda values: values["operations"][1]["probes"][1].update(taken_value=12),
    "operations[1].probes[1].other_value": lambda values: values["operations"][1]["probes"][1].update(other_value=True),
    "operations[1].probes[1].passed": lambda values: values["operations"][1]["probes"][1].update(passed=-1),
    "operations[1].probes[1].fails": lambda values: values["operations"][1]["probes"][1].update(fails=None),
    "operations[1].probes[1].return_register": lambda values: values["operations"][1]["probes"][1].update(
        return_register="%rax; x"
    ),
    "operations[1].probes ": lambda values: values["operations"][1]["probes"][1].update(return_register=""),
    "operations[1].probes[1].shared": lambda values: values["operations"][1]["probes"][1].update(shared=1),
    "operations[1].probes[0].keeps_length": lambda values: values["operations"][1]["probes"][0].update(keeps_length=None),
    "operations[1].probes  ": lambda values: values["operations"][1]["probes"].pop(0),
    "operations[0].probes": lambda values: values["operations"][0].update(
        operation="RSA_sign"
    ),  # a return probe in a job kills
    "operations[0].probes ": lambda values: values["operations"][0]["probes"].clear(),
    "missing[0].reason": lambda values: values["missing"][0].update(reason=5),
    "offsets": lambda values: values["offsets"].pop("rwstate"),
    "offsets.rwstate": lambda values: values["offsets"].update(rwstate=1 << 20),
}


@pytest.mark.parametrize("field", DAMAGE)
def test_damaged_plan_is_refused_by_the_path_of_the_field(field: str) -> None:
    values = copy.deepcopy(json.loads(json.dumps(to_values(PLAN))))
    DAMAGE[field](values)
    with pytest.raises(FieldError, match=f"^{re.escape(field.strip())} must be "):
        from_values(values, file_size=SIZE)


def test_on_a_narrow_terminal_less_important_columns_go() -> None:
    """Offsets and costs are whole; in a file there are all columns."""
    exits = (
        Probe(0x7FFF54A8, 0x7FFF54A8, Role.EXIT, "jne qword ptr [rsp + 0x12345678]", Cost.SINGLE_STEPPED, 24, "rax", True),
    )
    longest = replace(READ, operation="rsa_ossl_private_encrypt_x", probes=(READ.probes[0], *exits))
    plan = replace(PLAN, operations=(HANDSHAKE, READ, longest))
    lines = render([plan], most=80).splitlines()
    assert max(map(len, lines)) <= 80
    (heading,) = [line for line in lines if line.startswith("OPERATION")]
    assert {"OPERATION", "NS/CALL", "ROLE", "OFFSET", "COST"} <= {*heading.split()}
    sites = {f"{probe.offset:#x}" for planned in plan.operations for probe in planned.probes}
    assert sites <= {*" ".join(lines).split()}
    whole = render([plan])
    assert max(map(len, whole.splitlines())) > 80
    assert whole == render([plan], most=200)
