# SPDX-License-Identifier: Apache-2.0
"""Handshakes of real Go programs: where their phases and waits are probed, what labels them, and why they fail, in words."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from tests.fixtures.go_program import GoProgram, To
from tests.fixtures.go_samples import CALL, JE, checked, leaf
from tests.fixtures.go_samples import program as made
from tests.unit.stacks.go.test_real import NEEDED, OTHERS, minor_of, program

from ssllatency import abi
from ssllatency.abi import GoField, GoReason, GoType
from ssllatency.code.machine import Cost
from ssllatency.code.values import FieldPath
from ssllatency.elf.image import Image
from ssllatency.elf.source import ElfSource
from ssllatency.engines.base import TracedImage
from ssllatency.engines.read.names import cause, key_name
from ssllatency.engines.sessions.handshake_sites import Transports, collection_sites, places_of, sites_by_program
from ssllatency.model.handshakes import LEFT, Cause, Label
from ssllatency.probes.codec import handshake_from_values, handshake_values
from ssllatency.probes.handshake.phases import plan_handshake
from ssllatency.probes.plan import FilePlan, Role
from ssllatency.probes.planner import plan_image
from ssllatency.stacks.go.handshake.connection import HELD_ERROR, known_types, label_paths, runtime_fields, sent_alert
from ssllatency.stacks.go.handshake.names import names, text_hash
from ssllatency.stacks.go.handshake.texts import TEXTS
from ssllatency.stacks.go.traced_functions import NEWEST
from ssllatency.stacks.phases import Phase, Runtime, Transport

FILE_SIZE = 1 << 30
# Fields of a connection: they move in nearly every version.
PATHS = {
    18: {"version": 64, "resumed": 88, "cipher": 90, "peer_certificate": 152, "server_name": 192, "alpn": 328},
    20: {"version": 64, "resumed": 88, "cipher": 90, "peer_certificate": 152, "server_name": 216, "alpn": 352},
    21: {"version": 72, "resumed": 97, "cipher": 98, "peer_certificate": 160, "server_name": 224, "alpn": 360},
    22: {"version": 72, "resumed": 97, "cipher": 98, "peer_certificate": 160, "server_name": 224, "alpn": 360},
    23: {"version": 72, "cipher": 100, "group": 102, "peer_certificate": 160, "server_name": 224, "alpn": 368},
    24: {"version": 72, "cipher": 100, "group": 102, "peer_certificate": 160, "server_name": 224, "alpn": 368},
    25: {"version": 72, "cipher": 100, "group": 102, "peer_certificate": 168, "server_name": 208, "alpn": 352},
    26: {"version": 72, "cipher": 100, "group": 102, "peer_certificate": 168, "server_name": 208, "alpn": 352},
    27: {"version": 72, "cipher": 100, "group": 102, "peer_certificate": 168, "server_name": 232, "alpn": 376},
}


@pytest.fixture(params=[*NEEDED, *OTHERS])
def name(request: pytest.FixtureRequest) -> str:
    """The name of an executable."""
    return str(request.param)


def test_labels_are_read_where_the_types_say(name: str) -> None:
    paths = label_paths(program(name).types)
    assert PATHS[minor_of(name)].items() <= {label: path.offsets[-1] for label, path in paths.items()}.items()
    assert paths["descriptor"] == FieldPath((8, 0, 16), 8)
    assert (paths["version"].size, paths["cipher"].size, paths["resumed"].size) == (2, 2, 1)
    assert paths["server_name_length"].offsets == (paths["server_name"].offsets[0] + 8,)
    assert ("group" in paths) == (minor_of(name) >= 23)


def test_all_types_that_tell_errors_and_sockets_are_known(name: str) -> None:
    types = program(name).types
    hashes = known_types(types)
    assert len(set(hashes)) == len(hashes) == GoType.GO_TYPES
    assert 0 not in hashes
    assert {types.error_hashes.get(hashes[number]) for number in (GoType.NETWORK, GoType.TEXT, GoType.PERMANENT)} == {
        "*net.OpError",
        "*errors.errorString",
        "*tls.permanentError",
    }
    assert types.offset("net", "OpError", "Err") == HELD_ERROR
    # Where bpf/handshakes/go/keys.bpf.h looks for the sizes of keys.
    assert types.offset("crypto/rsa", "PublicKey", "N") == types.offset("crypto/rsa", "PrivateKey", "PublicKey") == 0
    assert (types.offset("crypto/ecdsa", "PrivateKey", "PublicKey"), types.offset("crypto/ecdsa", "PublicKey", "X")) == (0, 16)
    assert types.offset("math/big", "Int", "abs") == 8
    assert sent_alert(types)


def test_fields_of_the_runtime_and_of_a_config_are_known(name: str) -> None:
    """Callbacks for sessions have come with Go 1.21, for ECH with Go 1.24."""
    found = {GoField(number): offset for number, offset in enumerate(runtime_fields(program(name).types))}
    newer = {GoField.UNWRAP_SESSION: 21, GoField.WRAP_SESSION: 21, GoField.GET_ECH_KEYS: 25}
    missing = {field for field, since in newer.items() if minor_of(name) < since}
    assert {field for field, offset in found.items() if not offset} == missing
    assert (found[GoField.THREAD], found[GoField.TURNS]) == (48, 16)
    assert (found[GoField.GET_CERTIFICATE], found[GoField.GET_CONFIG]) == (56, 72)


def test_phases_and_waits_are_planned_and_kept(name: str) -> None:
    plan = plan_handshake(program(name).image)
    phases = {call.callee: call for call in plan.calls}
    assert {call.phase for call in plan.calls} == {*Phase}
    assert {
        "crypto/rsa.(*PrivateKey).Sign",
        "crypto/ecdsa.(*PrivateKey).Sign",
        "crypto/ed25519.PrivateKey.Sign",
    } <= phases.keys()
    assert {call.operation for call in plan.calls if call.phase is Phase.PRIVATE_KEY} == {"sign", "decrypt"}
    assert {call.operation for call in plan.calls if call.phase is not Phase.PRIVATE_KEY} == {""}
    exchanges = {call.callee for call in plan.calls if call.phase is Phase.KEY_EXCHANGE}
    assert ("crypto/tls.(*ecdheKeyAgreement).generateServerKeyExchange" in exchanges) == (minor_of(name) >= 26)
    assert {probe.role for probe in plan.chosen} == {Role.EXIT}
    branches = {probe.instruction.partition(" ")[0] for probe in plan.chosen}
    assert branches == ({"jne", "je"} if program(name).image.machine == "x86-64" else {"ret"})
    assert {probe.cost for probe in plan.chosen} == {Cost.EMULATED}
    assert {*plan.chosen} <= {*plan.probes()}
    [wait] = plan.transport
    assert (wait.phase, len(wait.ends)) == (Transport.WAIT_PEER, 1)
    assert {(call.callee, call.phase, len(call.ends)) for call in plan.collections} == {
        ("runtime.gcDrain", Runtime.COLLECTION, 1),
        ("runtime.gcDrainN", Runtime.COLLECTION, 1),
        ("runtime.gcAssistAlloc", Runtime.ASSIST, 4 + (minor_of(name) >= 20) + (minor_of(name) >= 24)),
    }
    assert (plan.missing, plan.state_machine, plan.within_data, plan.errors, plan.wake) == ((), None, False, (), None)
    assert handshake_from_values(json.loads(json.dumps(handshake_values(plan))), FILE_SIZE) == plan
    whole = FilePlan("/srv/app", "", "", "crypto/tls", (), (), stack="go", handshake=plan)
    assert {Label.VERSION, Label.SNI, Label.ALPN, Label.PORT, Label.CLIENT_CERTIFICATE} <= places_of(whole)
    assert Label.SIGNATURE in places_of(whole)


def test_keys_that_are_not_of_the_standard_library_are_planned(name: str) -> None:
    """Since Go 1.26 they call one function that signs with any of them; what decrypts still calls its method."""
    calls = [call for call in plan_handshake(program(name).image).calls if call.phase is Phase.PRIVATE_KEY]
    anybodys = {(call.callee.removeprefix("crypto/tls."), call.operation): len(call.ends) for call in calls}
    methods = {
        ("(*ecdheKeyAgreement).generateServerKeyExchange", "sign"): 1,
        ("(*serverHandshakeStateTLS13).sendServerCertificate", "sign"): 1,
        ("(*clientHandshakeState).doFullHandshake", "sign"): 1,
        ("(*clientHandshakeStateTLS13).sendClientCertificate", "sign"): 1,
    }
    own = {key: ends for key, ends in anybodys.items() if not key[0].startswith("crypto")}
    assert own == {("rsaKeyAgreement.processClientKeyExchange", "decrypt"): 1, **methods}


def test_its_phases_and_waits_have_programs_of_their_own() -> None:
    """Before Go 1.21 a call begins where the branch of the stack's check isn't taken."""
    image = program("1.18.10-amd64").image
    plan = replace(plan_image(image), handshake=plan_handshake(image))
    sites = sites_by_program(0, [TracedImage(plan, plan.path, (1,))], Transports(), raised=False, software=False, quic=True)
    assert sites["at_phase"] == sites["at_phase_end"] == [[]]
    assert sites["at_message"] == sites["at_go_parameters"] == [[]], "it has no QUIC"
    [begins], bits = sites["at_go_phase"], abi.PhaseCookie
    *keys, wait = sorted((cookie for _, cookie in begins), key=lambda cookie: cookie & 15 == abi.Part.WAIT_PEER)
    assert wait & 15 == abi.Part.WAIT_PEER
    anybodys = [cookie for cookie in keys if not cookie >> bits.KEY & 3]
    assert {cookie >> bits.OPERATION & 3 for cookie in anybodys} == {abi.KeyOperation.SIGN, abi.KeyOperation.DECRYPT}
    assert {cookie >> bits.CONDITIONAL & 1 for cookie in anybodys} == {0}
    keys = [cookie for cookie in keys if cookie not in anybodys]
    assert {cookie >> bits.KEY & 3 for cookie in keys} == {abi.GoKey.RSA, abi.GoKey.ECDSA, abi.GoKey.ED25519}
    assert {cookie >> bits.CONDITION & 15 for cookie in keys} == {6}
    assert {(cookie >> bits.CONDITIONAL & 1, cookie >> bits.TAKEN & 1) for cookie in keys} == {(1, 0)}
    assert {cookie >> bits.INNER & 1 for cookie in anybodys} == {0}
    assert {cookie >> bits.INNER & 1 for cookie in keys} == {1}
    assert len(sites["at_go_phase_end"][0]) == len(anybodys) + 1


def test_methods_of_keys_end_nothing_where_what_calls_them_does(name: str) -> None:
    """They tell the kind of key. Handshakes call none of them elsewhere."""
    calls = plan_handshake(program(name).image).calls
    inner = {call.callee for call in calls if not call.ends}
    methods = {"crypto/rsa.(*PrivateKey).Sign", "crypto/rsa.(*PrivateKey).Decrypt", "crypto/ecdsa.(*PrivateKey).Sign"}
    assert inner - {"crypto/mldsa.(*PrivateKey).Sign"} == {*methods, "crypto/ed25519.PrivateKey.Sign"}
    assert {call.phase for call in calls if call.callee in inner} == {Phase.PRIVATE_KEY}


def test_methods_of_keys_end_themselves_where_nothing_else_is_seen_to_sign() -> None:
    phase = "crypto/rsa.(*PrivateKey).Sign"
    alone = replace(made(), functions=[*made().functions, checked(phase, "x86-64")])
    assert ends_of(alone) == {phase: 2}
    signs = [To(CALL, "crypto.SignMessage", 4), bytes.fromhex("4885c0"), To(JE, "early")]
    user = checked("crypto/tls.(*clientHandshakeState).doFullHandshake", "x86-64", signs)
    both = replace(alone, functions=[*alone.functions, leaf("crypto.SignMessage", "x86-64"), user])
    assert ends_of(both) == {phase: 0, user.name: 1}
    gone = "crypto/tls.(*serverHandshakeStateTLS13).sendServerCertificate"
    host = checked("crypto/tls.(*serverHandshakeStateTLS13).handshake", "x86-64", inlined=(gone,))
    assert ends_of(replace(both, functions=[*both.functions, host])) == {phase: 2, user.name: 1}
    unseen = checked(user.name, "x86-64", [To(CALL, "crypto.SignMessage", 4), b"\x90"])
    assert ends_of(replace(both, functions=[*both.functions[:-1], unseen])) == {phase: 2}


def ends_of(program: GoProgram) -> dict[str, int]:
    """How many ends each of its phases has."""
    calls = plan_handshake(Image("made", ElfSource.of(program.data(), "/srv/app"), ())).calls
    return {call.callee: len(call.ends) for call in calls}


def test_what_a_program_does_not_have_is_absent() -> None:
    """The sample has no private keys, no sockets, and a connection with few fields."""
    plan = plan_handshake(Image("made", ElfSource.of(made().data(), "/srv/app"), ()))
    assert plan.calls == ()
    assert plan.labels.keys().isdisjoint({"descriptor", "polled", "verify_mode", "alpn"})


def unseen(program: GoProgram) -> dict[str, str]:
    """The reasons why parts of its handshakes aren't seen."""
    plan = plan_handshake(Image("made", ElfSource.of(program.data(), "/srv/app"), ()))
    return {part.what: part.reason for part in plan.missing}


def test_collections_are_watched_from_where_the_stacks_check_is_passed(name: str) -> None:
    """Before Go 1.21, and on aarch64, a call begins where its branch isn't taken."""
    image = program(name).image
    plan = replace(plan_image(image), handshake=plan_handshake(image))
    begins, ends = collection_sites(TracedImage(plan, plan.path, ()))
    branches = minor_of(name) < 21 or image.machine == "aarch64"
    marks = [[cookie >> abi.PhaseCookie.CONDITIONAL & 3 for _, cookie in sites] for sites in (begins, ends)]
    assert marks == [[int(branches)] * 3, [0] * len(ends)], "not taken"
    assists = [[cookie >> abi.PhaseCookie.ASSIST & 1 for _, cookie in sites] for sites in (begins, ends)]
    assert assists == [[0, 0, 1], [0, 0, *[1] * (len(ends) - 2)]]
    assert {offset for offset, _ in begins}.isdisjoint(offset for offset, _ in ends)


def test_of_a_newer_go_it_is_said_that_its_functions_are_not_known() -> None:
    """A function that has another name there takes its time in *rest*."""
    newer = replace(made(27), version=f"go1.{NEWEST + 1}rc1")
    assert unseen(newer).keys() - unseen(made(27)).keys() == {"functions with new names"}
    assert unseen(newer)["functions with new names"].endswith(f"this is 1.{NEWEST + 1}: what they take is part of rest")


def test_a_phase_that_is_inlined_is_said_not_to_be_seen() -> None:
    phase = "crypto/rsa.(*PrivateKey).Sign"
    hosts = [checked(name, "x86-64", inlined=(phase,)) for name in ("a", "b", "c", "d")]
    program = replace(made(), functions=[*made().functions, *hosts])
    assert unseen(program)[phase] == "it is inlined into a, b, c, others, where it can't be seen"
    assert phase not in unseen(made())


def why(error: int, *, end: abi.End = abi.End.ERROR, sent: int | None = None, types: dict[int, str] | None = None) -> Cause:
    ending = abi.Ending.FAILURE if end is abi.End.ERROR else abi.Ending.ABANDONED
    word = abi.Error.LIBRARY_GO << abi.Error.LIBRARY | error if error else 0
    key = abi.CauseKey(word, abi.State.UNKNOWN, 0, ending, end, sent or 0, sent is not None)
    return cause(key, abi.Tally(1, 0), names(types or {}))


def test_alerts_are_named() -> None:
    received = why(GoReason.ALERT + 42)
    assert (received.reason, received.alert, received.sent) == ("alert received: bad certificate", "bad certificate", False)
    alone = why(GoReason.SENT + 20, sent=20)
    assert (alone.reason, alone.alert, alone.sent) == ("bad record mac", "bad record mac", True)
    sent = why(
        GoReason.TEXT | text_hash("tls: no cipher suite supported by both client and server; client") & GoReason.HASH, sent=40
    )
    assert sent.reason.startswith("no cipher suite")
    assert (sent.alert, sent.sent, sent.library) == ("handshake failure", True, "crypto/tls")


def test_errors_are_named_by_their_types() -> None:
    types = {0xDEADBEEF: "*tls.CertificateVerificationError", 0x12345678: "*acme.Refused"}
    reasons = [why(GoReason.TYPE | type_hash & GoReason.HASH, types=types).reason for type_hash in types]
    assert reasons == ["certificate verification failed", "error of type *acme.Refused"]
    assert why(0, end=abi.End.TRANSPORT).reason == LEFT


@pytest.mark.parametrize(("kind", "size", "key"), [
    (abi.GoKey.RSA, 256, "RSA-2048"),
    (abi.GoKey.ECDSA, 72, "ECDSA P-256"),
    (abi.GoKey.ECDSA, 0, "ECDSA"),
    (abi.GoKey.ED25519, 0, "Ed25519"),
    (abi.GoKey.NONE, 0, ""),
])  # fmt: skip
def test_keys_are_named_by_kind_and_size(kind: abi.GoKey, size: int, key: str) -> None:
    assert key_name(abi.KeyUse(0, size, kind, abi.KeyOperation.SIGN), names({})) == key


def test_texts_are_told_apart_by_their_beginnings() -> None:
    """Of those that begin alike, the reason is what they have in common."""
    for text in TEXTS:
        reason = why(GoReason.TEXT | text_hash(f"tls: {text}") & GoReason.HASH).reason
        assert reason == text or (reason.endswith(" …") and text.startswith(reason.removesuffix(" …")))
        assert re.fullmatch(r"[^:%]+", text), "what follows a colon varies"
