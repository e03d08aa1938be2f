# SPDX-License-Identifier: Apache-2.0
"""Mbed TLS as this machine has it, and a newer one: what its code and tables show, and that each of its functions is planned;
the same where a program has it built in."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from tests import foreign
from tests.fixtures import build, mbedtls

from ssllatency import abi
from ssllatency.abi import MbedtlsField
from ssllatency.elf.image import Image
from ssllatency.engines.attach.images import unreadable
from ssllatency.engines.base import TracedImage
from ssllatency.engines.read.names import cause
from ssllatency.engines.sessions.handshake_sites import error_sites, machine_sites, places_of, watched
from ssllatency.model.handshakes import Label
from ssllatency.probes.handshake.phases import plan_handshake
from ssllatency.probes.plan import FilePlan
from ssllatency.probes.planner import plan_image
from ssllatency.stacks.implementations import tls_inside
from ssllatency.stacks.mbedtls.connection import connection_offsets, label_paths, major_version, numbers
from ssllatency.stacks.mbedtls.names import suites
from ssllatency.stacks.mbedtls.stack import MbedTls
from ssllatency.stacks.phases import ErrorKind, Phase, Transport
from ssllatency.stacks.registry import stack_of

ARM64 = "3.6 for arm64"
SHARED = (*mbedtls.VERSIONS, ARM64)
BUILT_IN = "with 3.6 built in"
LABELS = {"version": 1, "cipher": 2, "alpn": 1, "descriptor": 2, "alert": 2}


@pytest.fixture(scope="module", params=[*SHARED, BUILT_IN])
def name(request: pytest.FixtureRequest) -> str:
    """Which file it is."""
    return str(request.param)


@pytest.fixture(scope="module")
def image(name: str, tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The library, or the program that has it."""
    if name == BUILT_IN:
        return Image.open(mbedtls.build(mbedtls.LATER, tmp_path_factory.mktemp("built-in"), built_in=True).program)
    if name == ARM64:
        return Image.open(foreign.needed(foreign.find("libmbedtls-3.6-arm64")))
    return Image.open(mbedtls.shared(name))


@pytest.fixture(scope="module")
def plan(image: Image) -> FilePlan:
    """With the sites of handshakes."""
    return replace(plan_image(image), handshake=plan_handshake(image))


def test_it_is_recognised(image: Image) -> None:
    assert isinstance(stack_of(image), MbedTls)
    assert tls_inside(image).traceable == ("Mbed TLS", "")


def test_the_state_of_a_handshake_is_read_by_what_its_calls_do(image: Image, name: str) -> None:
    """The numbers of MBEDTLS_SSL_HANDSHAKE_OVER are those of mbedtls/ssl.h."""
    fields = dict(zip(MbedtlsField, numbers(image), strict=True))
    assert (fields[MbedtlsField.OVER], fields[MbedtlsField.MAJOR]) == ((16, 2) if name == mbedtls.OWN else (27, 3))
    assert fields[MbedtlsField.MAJOR] == major_version(image)
    assert fields[MbedtlsField.STATE] > 0
    pointers = [fields[place] for place in (MbedtlsField.SEND, MbedtlsField.RECEIVE, MbedtlsField.RECEIVE_TIMEOUT)]
    assert pointers == [pointers[0] + 8 * place for place in range(3)]
    own = [fields[place] for place in (MbedtlsField.NET_SEND, MbedtlsField.NET_RECEIVE, MbedtlsField.NET_RECEIVE_TIMEOUT)]
    assert (min(own), len(set(own))) == (0, 3)


def test_the_side_is_in_the_configuration(image: Image) -> None:
    assert connection_offsets(image).keys() == {"server", "server_bits"}
    assert connection_offsets(image)["server_bits"] == 1


def test_labels_are_read_by_its_accessors(image: Image) -> None:
    paths = label_paths(image)
    assert {label: len(path.offsets) for label, path in paths.items()} == LABELS
    assert (paths["cipher"].size, paths["alpn"].size, paths["alert"].size) == (4, 8, 1)
    assert (paths["descriptor"].offsets[1], paths["alert"].offsets[1]) == (0, 1)


def test_what_handshakes_are_grouped_by(plan: FilePlan) -> None:
    known = {Label.VERSION, Label.CIPHER, Label.ALPN, Label.PORT, Label.PEER, Label.ROLE, Label.PROCESS}
    assert places_of(plan) == known


def test_cipher_suites_are_named_by_its_table(image: Image, name: str) -> None:
    named = suites(image)
    assert named[0x0300C02F] == "TLS-ECDHE-RSA-WITH-AES-128-GCM-SHA256"
    assert named[0x0300009C] == "TLS-RSA-WITH-AES-128-GCM-SHA256"
    assert named.get(0x03001301, "") == ("" if name == mbedtls.OWN else "TLS1-3-AES-128-GCM-SHA256")
    assert len(set(named.values())) == len(named) > 100


def test_each_of_its_functions_is_planned(plan: FilePlan) -> None:
    assert (plan.kind, plan.stack) == ("libmbedtls", "mbedtls")
    assert {operation.operation for operation in plan.operations} == {one.name for one in MbedTls.operations}
    assert plan.missing == ()


def test_nothing_is_said_of_waits_that_results_tell(plan: FilePlan) -> None:
    """It has no place where a connection says why a call didn't succeed, and needs none."""
    assert plan.offsets.rwstate is None
    assert unreadable([TracedImage(plan, "library", ())]) == []


def test_phases_are_calls_of_functions_that_have_names(plan: FilePlan) -> None:
    sites = plan.handshake
    phases = Counter(call.phase for call in sites.calls)
    assert phases.keys() == {Phase.PRIVATE_KEY, Phase.KEY_EXCHANGE, Phase.PEER_VERIFICATION}
    assert {call.operation for call in sites.calls if call.phase is Phase.PRIVATE_KEY} == {"sign", "decrypt"}
    assert {call.phase for call in sites.transport} == {Transport.WAIT_PEER, Transport.WAIT_WINDOW}
    assert sites.missing == ()


def test_alerts_that_are_sent_have_their_level(plan: FilePlan) -> None:
    (alerts,) = plan.handshake.errors
    assert (alerts.kind, alerts.function) == (ErrorKind.ALERT, "mbedtls_ssl_send_alert_message")
    ((_, cookie),) = error_sites([alerts])
    bits = abi.ErrorCookie
    assert [cookie >> bit & 1 for bit in (bits.FATAL, bits.LEVELLED)] == [1, 1]
    assert cookie >> bits.REASON & 7 == 2


def test_steps_are_watched_beside_the_calls(plan: FilePlan) -> None:
    """Reads and writes are not: they call what is watched."""
    traced = TracedImage(plan, "library", ())
    (image,) = watched([traced], [traced])
    names = {operation.operation for operation in image.plan.operations}
    assert names == {"mbedtls_ssl_handshake", "mbedtls_ssl_free", "mbedtls_ssl_session_reset"}
    begins, ends = machine_sites(traced, 0)
    assert (len(begins), len(ends) > 0) == (1, True)
    told = {cookie >> abi.Cookie.RETURNS & 3 for _, cookie in (*begins, *ends)}
    assert told == {abi.Returns.NEGATIVE_ERROR}


@pytest.mark.parametrize(("error", "reason", "alert"), [
    (0x7280, "connection EOF", ""),
    (0x2700, "X.509: certificate verification failed", ""),
    (0x8000 + 48, "alert received: unknown CA", "unknown CA"),
    (0x8000 + 200, "alert 200", "alert 200"),
    (0x0600, "reason 1536", ""),
])  # fmt: skip
def test_codes_have_the_words_of_its_constants(image: Image, error: int, reason: str, alert: str) -> None:
    key = abi.CauseKey(error=abi.Error.LIBRARY_MBEDTLS << abi.Error.LIBRARY | error, state=abi.State.UNKNOWN)
    told = cause(key, abi.Tally(), MbedTls().names(image))
    assert (told.reason, told.alert, told.library) == (reason, alert, "Mbed TLS")


@pytest.mark.parametrize(("error", "earlier", "later"), [
    (0x6E00, "bad NewSessionTicket", "handshake failure"),
    (0x7380, "no cipher chosen", "reason 29568"),
    (0x7800, "peer verification failed", "unrecognized name"),
])  # fmt: skip
def test_numbers_that_changed_their_meaning(image: Image, name: str, error: int, earlier: str, later: str) -> None:
    key = abi.CauseKey(error=abi.Error.LIBRARY_MBEDTLS << abi.Error.LIBRARY | error, state=abi.State.UNKNOWN)
    told = cause(key, abi.Tally(), MbedTls().names(image))
    assert told.reason == (earlier if name == mbedtls.OWN else later)


def test_nothing_is_guessed_of_functions_that_do_something_else(tmp_path: Path) -> None:
    """As where contexts are bit fields, or an accessor returns one thing here and another there."""
    source = tmp_path / "other.c"
    source.write_text(_OTHER)
    library = Image.open(build.library(tmp_path, "libmbedtls.so.99", [str(source)]))
    assert isinstance(stack_of(library), MbedTls)
    assert (connection_offsets(library), label_paths(library), set(numbers(library))) == ({}, {}, {0})
    assert (suites(library), MbedTls().state_machine(library, None)) == ({}, None)  # type: ignore[arg-type]
    assert major_version(library) == 0


_OTHER = r"""
struct configuration { unsigned first : 1, endpoint : 1; };
struct context { struct configuration *configuration; int state, version, other; void *functions[4]; };
int mbedtls_ssl_handshake_step(struct context *context) { return context->configuration->endpoint; }
int mbedtls_ssl_handshake(struct context *context) { return mbedtls_ssl_handshake_step(context); }
int mbedtls_ssl_read(struct context *context) { return context->other; }
void mbedtls_ssl_conf_endpoint(struct configuration *configuration, int endpoint) { configuration->endpoint = endpoint; }
const char *mbedtls_ssl_get_version(const struct context *context)
{
	return context->version + context->other == 3 ? "TLSv1.2" : "unknown";
}
const char *mbedtls_ssl_get_alpn_protocol(const struct context *context)
{
	return context->state ? context->functions[0] : context->functions[1];
}
void mbedtls_ssl_set_bio(struct context *context, void *argument, void *send)
{
	context->functions[0] = argument;
	context->functions[1] = send;
}
"""
