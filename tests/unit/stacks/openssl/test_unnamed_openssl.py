# SPDX-License-Identifier: Apache-2.0
"""Functions of an OpenSSL 3 whose symbols were stripped: those of a stripped copy are the ones that symbols name, and what
isn't certain is not taken."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests import programs
from tests.fixtures import build
from tests.fixtures.stripped import stripped_library
from tests.parameters import slow_except

from ssllatency.elf.image import Image
from ssllatency.probes.contents import file_facts
from ssllatency.probes.handshake.phases import plan_handshake
from ssllatency.probes.planner import plan_image
from ssllatency.stacks.openssl.operations import OPERATIONS
from ssllatency.stacks.openssl.unnamed import since_3
from ssllatency.stacks.openssl.unnamed.found import found_in
from ssllatency.stacks.openssl.unnamed.functions import NAMES
from ssllatency.stacks.registry import stack_of

LABELS = (
    *("session", "cipher", "id", "hit", "host_name", "alpn", "alpn_length", "group_id", "group"),
    *("signature", "number", "held", "certificate", "chain", "peer", "verify_mode", "hello_retry"),
)
OFFSETS = ("rwstate", "shutdown", "state", "hand_state", "server", "version")


@pytest.mark.parametrize("style", slow_except(build.STYLES, "plain"))
def test_made_up_openssl(tmp_path: Path, style: str) -> None:
    """However it is compiled, what is found is right, and at most what must be certain is missing."""
    image, symbols = stripped_library(tmp_path, "openssl_names.c", *build.STYLES[style])
    found = found_in(image)
    assert {name: function.address for name, function in found.functions.items()} == {
        name: symbols[name].address for name in found.functions
    }
    known = {name: image.constant(symbols["offsets"].address + 8 * number, 8) for number, name in enumerate(OFFSETS)}
    assert found.offsets.items() <= known.items()
    if style == "plain":
        assert found.missing == {}
        assert {*found.functions} >= {
            *NAMES,
            *since_3.NAMES,
            "TLS_method",
            "TLS_server_method",
            "TLS_client_method",
            "BIO_test_flags",
            "EVP_PKEY_CTX_set_hkdf_mode",
        }
        assert found.offsets == known
        plan = plan_image(image)
        assert (plan.stack, {operation.found for operation in plan.operations}) == ("openssl", {"errors raised"})
        assert plan.offsets.rbio is not None
        of_bio = (plan.offsets.bio_method, plan.offsets.bio_descriptor)
        assert of_bio == tuple(image.constant(symbols["of_bio"].address + 8 * number, 8) for number in range(2))
        at = {name: image.constant(symbols["labelled"].address + 8 * number, 8) for number, name in enumerate(LABELS)}
        labels = {name: path.offsets for name, path in stack_of(image).labels(image).items()}
        assert labels["resumed"] == (at["hit"],)
        assert labels["cipher"] == (at["session"], at["cipher"], at["id"])
        assert stack_of(image).names(image).ciphers == {
            0x03001301: "TLS_AES_128_GCM_SHA256",
            0x03001302: "TLS_AES_256_GCM_SHA384",
        }
        assert stack_of(image).names(image).alerts[40] == "handshake failure"  # no function that names them is linked
        assert labels["server_name"] == (at["host_name"],)
        assert (labels["alpn"], labels["alpn_length"]) == ((at["alpn"],), (at["alpn_length"],))
        assert (labels["group_tls13"], labels["group_session"]) == ((at["group_id"],), (at["session"], at["group"]))
        assert labels["hello_retry"] == (at["hello_retry"],)
        assert labels["signature"] == (at["signature"], at["number"])
        assert (labels["verify_mode"], labels["peer_certificate"]) == ((at["verify_mode"],), (at["session"], at["peer"]))
        served = ((at["held"], at["certificate"]), (at["held"], at["chain"]))
        assert (labels["certificate"], labels["chain"]) == served
        bio = stack_of(image).bio(image)
        assert [bio[name] for name in ("x509_encoding", "x509_signature", "stack_count")] == [104, 144, 0]


def test_what_ends_in_a_function_of_many_ways_is_found(tmp_path: Path) -> None:
    """As SSL_accept and SSL_connect of OpenSSL 4.0 end in SSL_do_handshake."""
    image, symbols = stripped_library(tmp_path, "openssl_names.c", "-DMANY_WAYS")
    found = found_in(image)
    assert found.missing == {}
    assert {name: found.functions[name].address for name in ("SSL_accept", "SSL_connect")} == {
        name: symbols[name].address for name in ("SSL_accept", "SSL_connect")
    }


def test_an_accessor_of_another_source_file_is_found(tmp_path: Path) -> None:
    """That of the session lies behind all of ssl_lib.c, so further from most of it the longer that gets."""
    image, symbols = stripped_library(tmp_path, "openssl_names.c", "-DFAR")
    assert symbols["SSL_get_session"].address - symbols["SSL_shutdown"].address > 1 << 16
    assert found_in(image).accessors["SSL_get_session"].address == symbols["SSL_get_session"].address
    assert {"group_session", "group_tls13"} <= {*stack_of(image).labels(image)}


def test_a_private_key_is_never_taken_for_a_certificate(tmp_path: Path) -> None:
    image, _ = stripped_library(tmp_path, "openssl_names.c", "-DSENDS_KEY")
    plan_image(image)
    labels = stack_of(image).labels(image)
    assert {"signature", "peer_certificate"} <= {*labels}
    assert {"certificate", "chain"}.isdisjoint(labels)
    assert file_facts(image).unfound == ("certificates",)
    assert "certificates" in {part.what for part in plan_handshake(image).missing}


def test_two_kinds_of_sockets_are_not_told_apart(tmp_path: Path) -> None:
    image, _ = stripped_library(tmp_path, "openssl_names.c", "-DTWO_SOCKETS")
    offsets = plan_image(image).offsets
    assert (offsets.bio_method, offsets.bio_descriptor) == (None, None)


def test_of_an_openssl_without_names_or_numbers_it_is_said_what_would_help(tmp_path: Path) -> None:
    """As one that was built without its error texts."""
    programs.needed(*build.TOOLS)
    source = tmp_path / "old.c"
    source.write_text(
        'const char *const file = "ssl/ssl_lib.c", *const version = "OpenSSL 1.1.1w  11 Sep 2023";\n'
        "int main(void) { return *file + *version; }\n"
    )
    build.run("gcc", "-O2", "-o", tmp_path / "old", source)
    stripped = build.stripped(tmp_path / "old", "old-stripped")
    facts = file_facts(Image.open(stripped))
    assert facts.libraries == ()
    said = "OpenSSL is linked into old-stripped and shows no names of its functions (stripped)"
    assert facts.obstacle.startswith(f"{said}; what would help is its debug file as /usr/lib/debug/")
    assert facts.by_debug_file
    # As in bun: no debug file would be believed then.
    build.run("objcopy", "--remove-section=.eh_frame", "--remove-section=.eh_frame_hdr", stripped)
    facts = file_facts(Image.open(stripped))
    wanted = "a build of old-stripped that has its symbol table"
    assert facts.obstacle == f"{said}, nor where these begin (no unwind tables); what would help is {wanted}"
    assert not facts.by_debug_file


def test_accessors_are_never_probed(tmp_path: Path) -> None:
    """What is only read may be another function that returns the same."""
    image, _ = stripped_library(tmp_path, "openssl_names.c")
    probed = {symbol for operation in OPERATIONS for symbol in operation.symbols}
    accessors = found_in(image).accessors
    assert {"SSL_version", "SSL_get_session"} <= {*accessors}
    assert not probed & {*accessors}


def test_a_confined_process_reads_it(tmp_path: Path) -> None:
    """It may open no file, that of a module neither: so it is begun anew, without what this process has brought in."""
    programs.needed(*build.TOOLS)
    path = build.stripped(build.library(tmp_path, "libnames.so", ["openssl_names.c"], "-O2"), "libnames-stripped.so")
    code = f"from ssllatency.tracing.file_facts import look_inside; print(look_inside({str(path)!r}, 'program').libraries)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60, env=environment)
    assert done.stdout == "('libssl', 'libcrypto')\n"


def test_a_name_that_two_give_is_nobodys(tmp_path: Path) -> None:
    image, symbols = stripped_library(tmp_path, "openssl_names.c", "-DTWICE")
    found = found_in(image)
    assert found.missing == {"SSL_shutdown": "2 functions may be it, where one is expected"}
    assert found.functions["SSL_write"].address == symbols["SSL_write"].address
    assert file_facts(image).unfound == ("SSL_shutdown",)


def test_a_function_that_gives_two_names_has_none(tmp_path: Path) -> None:
    image, _ = stripped_library(tmp_path, "openssl_names.c", "-DBUILT_IN")
    assert {*found_in(image).missing} == {"SSL_write", "SSL_write_ex"}  # the latter is found by the former


def test_a_handshake_that_starts_jobs_itself_is_found(tmp_path: Path) -> None:
    """As compilers build it for Alpine and for some of Python's packages."""
    image, symbols = stripped_library(tmp_path, "openssl_names.c", "-DSTARTS_JOBS")
    found = found_in(image)
    assert found.missing == {}
    assert found.functions["SSL_do_handshake"].address == symbols["SSL_do_handshake"].address
    assert "hand_state" in found.offsets


def test_a_message_without_certificates_shows_whether_one_is_asked_for(tmp_path: Path) -> None:
    """However many ways there are for those who give some."""
    image, symbols = stripped_library(tmp_path, "openssl_names.c", "-DPARSES")
    at = image.constant(symbols["labelled"].address + 8 * LABELS.index("verify_mode"), 8)
    assert found_in(image).labels["verify_mode"].offsets == (at,)


def test_a_caller_with_a_function_built_into_it_is_not_taken_for_that(tmp_path: Path) -> None:
    """As where a program is compiled as one with OpenSSL: what it is called with is no connection."""
    image, symbols = stripped_library(tmp_path, "openssl_names.c", "-DREADS_FOR")
    found = found_in(image)
    assert found.missing == {"SSL_read": "what it is called with isn't a connection"}
    assert found.functions["SSL_read_ex"].address == symbols["SSL_read_ex"].address
    image, _ = stripped_library(tmp_path, "openssl_names.c", "-DSHAKES_FOR")
    assert found_in(image).functions == {}
    assert "SSL_do_handshake doesn't ask" in found_in(image).missing["SSL_read"]


def test_symbols_of_openssl_come_first(tmp_path: Path) -> None:
    programs.needed(*build.TOOLS)
    path = build.library(tmp_path, "libnamed.so", ["openssl_names.c"], "-O2")
    assert {operation.found for operation in plan_image(Image.open(path)).operations} == {"symbol table"}
