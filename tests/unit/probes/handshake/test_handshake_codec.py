# SPDX-License-Identifier: Apache-2.0
"""Handshake plans as JSON values, on disk and in words: what is read back is the same or refused."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests import schema
from tests.unit.probes.cache.cached import Asker, code_that_asks
from tests.unit.probes.cache.fresh import printed

from ssllatency.code.machine import Cost, Emulation
from ssllatency.code.values import FieldPath
from ssllatency.elf.image import Image
from ssllatency.fields import FieldError
from ssllatency.probes.codec import from_values, handshake_from_values, handshake_values, to_values
from ssllatency.probes.handshake.listing import render, to_document
from ssllatency.probes.handshake.phases import plan_handshake
from ssllatency.probes.plan import CodeRange, ErrorSite, FilePlan, HandshakeSites, OperationPlan, PhaseCall, Probe, Role
from ssllatency.stacks.phases import ErrorKind, MissingPart, Phase, Transport


def probe(offset: int, role: Role, instruction: str, cost: Cost = Cost.EMULATED) -> Probe:
    return Probe(offset, offset + 0x1000, role, instruction, cost, stack_delta=24)


SIGN = PhaseCall(
    Phase.PRIVATE_KEY,
    "EVP_DigestSign",
    probe(16, Role.ENTRY, "call 0x1100"),
    (probe(23, Role.EXIT, "jle 0x1200"),),
    skip_null=1,
    operation="sign",
    size_argument=2,
    size_is_pointer=True,
)
CALLBACK = PhaseCall(
    Phase.CALLBACKS,
    "cert_cb",
    probe(32, Role.ENTRY, "je 0x1300"),
    (probe(48, Role.EXIT, "mov eax, ebx", Cost.SINGLE_STEPPED),),
    condition="je",
)
READ = PhaseCall(Transport.WAIT_PEER, "BIO_read", probe(64, Role.ENTRY, "call 0x1400"), (probe(69, Role.EXIT, "jne 0x1500"),))
MACHINE = OperationPlan(
    "state_machine",
    4096,
    96,
    "SSL_METHOD",
    (probe(80, Role.ENTRY, "push r15"), replace(probe(85, Role.EXIT, "jne 0x1600"), return_register="rbx")),
)
SITES = HandshakeSites(
    calls=(SIGN, CALLBACK),
    transport=(READ,),
    state_machine=MACHINE,
    within_data=False,
    errors=(ErrorSite(ErrorKind.FATAL, "ossl_statem_fatal", probe(64, Role.ENTRY, "push rbp")),),
    wake=probe(80, Role.ENTRY, "push r15"),
    labels={"cipher": FieldPath((2328, 760, 24), 4)},
    missing=(MissingPart("alpn_select_cb", "no call of it is found"),),
    code=(CodeRange(0, 96, "ab" * 32),),
)
PLAN = FilePlan("/lib/libssl.so.3", "c0ffee", "OpenSSL 3.0.19", "libssl", (), (), handshake=SITES)
SIZE = 4096


def values() -> dict[str, Any]:
    """The plan as a file would hold it."""
    loaded: dict[str, Any] = json.loads(json.dumps(to_values(PLAN)))
    return loaded


def test_a_plan_comes_back_as_it_was() -> None:
    assert from_values(values(), file_size=SIZE) == PLAN
    assert handshake_from_values(json.loads(json.dumps(handshake_values(SITES))), file_size=SIZE) == SITES


DAMAGE: dict[str, tuple[tuple[str | int, ...], Any]] = {
    "an unknown phase": (("calls", 0, "phase"), "sleep"),
    "an offset outside the file": (("calls", 0, "begin", "offset"), SIZE),
    "a negative offset": (("calls", 0, "begin", "offset"), -1),
    "an end as begin": (("calls", 0, "begin", "role"), "exit"),
    "a begin as end": (("calls", 0, "ends", 0, "role"), "entry"),
    "no end": (("calls", 0, "ends"), []),
    "an argument that isn't in a register": (("calls", 0, "skip_null"), 6),
    "an argument that is a flag": (("calls", 0, "skip_null"), True),
    "an unknown operation": (("calls", 0, "operation"), "encrypt"),
    "a size that isn't told how": (("calls", 0, "size_is_pointer"), 1),
    "an unknown condition": (("calls", 1, "condition"), "jrcxz"),
    "a condition with arguments": (("calls", 1, "skip_null"), 1),
    "a condition of another type": (("calls", 1, "condition"), ["je"]),
    "an unknown error": (("errors", 0, "kind"), "panic"),
    "an error's exit": (("errors", 0, "probe", "role"), "exit"),
    "a wake without a probe": (("wake",), {}),
    "labels in a list": (("labels",), []),
    "a label without offsets": (("labels", "cipher", "offsets"), []),
    "a label too far away": (("labels", "cipher", "offsets"), [0, 0, 0, 0, 0]),
    "a label beyond any structure": (("labels", "cipher", "offsets"), [1 << 16]),
    "a label of odd size": (("labels", "cipher", "size"), 3),
    "code past the file": (("code", 0, "size"), SIZE + 1),
    "code that doesn't hold the last site": (("code", 0, "size"), 80),
    "code that begins past the first site": (("code", 0, "offset"), 17),
    "code without a digest": (("code", 0, "digest"), ""),
    "code without all of its digest": (("code", 0, "digest"), "ab" * 31),
    "no code": (("code",), []),
    "a reason that is no text": (("missing", 0, "reason"), 7),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_refused(damage: str) -> None:
    (*way, last), value = DAMAGE[damage]
    damaged: Any = values()
    place = damaged["handshake"]
    for step in way:
        place = place[step]
    assert place[last] != value or type(place[last]) is not type(value)
    place[last] = value
    with pytest.raises(FieldError):
        from_values(damaged, file_size=SIZE)


def test_fields_too_many_and_too_few_are_refused() -> None:
    for change in (lambda record: record.update(more=1), lambda record: record.pop("callee")):
        damaged = copy.deepcopy(values())
        change(damaged["handshake"]["calls"][0])
        with pytest.raises(FieldError):
            from_values(damaged, file_size=SIZE)


# In words.


def test_the_listing_tells_every_site_and_what_is_missing() -> None:
    lines = render([PLAN]).splitlines()
    assert lines[:5] == [
        "/lib/libssl.so.3",
        "  holds      libssl",
        "  build-id   c0ffee",
        "  ns a hit   optimised 240, emulated 500, single-stepped 5,000, a return +300, after other work +140"
        " (on the reference machine)",
        "  label      cipher: 2328 -> 760 -> 24, 4 bytes",
    ]
    words = [line.split() for line in lines]
    assert words[7][:6] == ["private_key", "EVP_DigestSign", "1000", "begin", "0x10", "emulated"]
    assert lines[7].endswith("24 below, sign, not if argument 1 is NULL, size at argument 2")
    assert words[8] == ["end", "0x17", "emulated", "jle", "0x1200", "24", "below"]
    assert words[9][:5] == ["callbacks", "cert_cb", "5500", "begin", "0x20"]
    assert lines[9].endswith("24 below, if not taken")
    assert words[11][:5] == ["wait_peer", "BIO_read", "1000", "begin", "0x40"]
    assert lines[11].endswith("24 below, only where calls sleep")
    assert words[13][:4] == ["call", "state_machine", "1000", "entry"]
    assert lines[14].endswith("24 below, value in rbx")
    assert words[15][:2] == ["error", "ossl_statem_fatal"]
    assert words[16][:2] == ["offload", "ASYNC_WAIT_CTX_set_wait_fd"]
    assert lines[-2:] == ["Not seen:", "  no call of it is found: alpn_select_cb"]


def test_the_document_holds_the_plan_and_its_costs() -> None:
    document = json.loads(json.dumps(to_document([PLAN])))
    schema.check(document)
    assert document["schema"] == "ssllatency-handshake-probes/1"
    (file,) = document["files"]
    assert [call.pop("cost_ns") for call in file["calls"] + file["transport"]] == [1000, 5500, 1000]
    assert [file.pop(name) for name in ("path", "build_id", "kind")] == ["/lib/libssl.so.3", "c0ffee", "libssl"]
    file["state_machine"]["debug_file"] = ""  # which a document has as a part of how a function was found
    assert handshake_from_values(file, file_size=SIZE) == SITES


# On disk.


def test_a_plan_is_kept_by_the_files_contents_and_the_settings(library: Path, tmp_path: Path) -> None:
    directory = tmp_path / "cache"

    def cached(**settings: Emulation) -> tuple[HandshakeSites, bool]:
        return Asker(directory).handshake_sites(library, **settings)

    first, kept = cached()
    assert (first, kept) == (plan_handshake(Image.open(library)), False)
    assert cached() == (first, True)
    assert cached(emulation=Emulation(calls=False))[1] is False
    for entry in directory.iterdir():
        entry.write_text(entry.read_text().replace('"within_data"', '"within"'))
    assert cached() == (first, False)


def test_a_kept_plan_needs_neither_parser_nor_decoder(library: Path, tmp_path: Path) -> None:
    directory = tmp_path / "cache"
    Asker(directory).handshake_sites(library)
    code = code_that_asks("HANDSHAKE", library, directory)
    assert printed(code + "print(type(found).__name__)") == ["HandshakeSites"]
