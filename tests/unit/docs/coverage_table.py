# SPDX-License-Identifier: Apache-2.0
"""What is seen of each TLS library, and the tests that prove it: the tables of docs/coverage.md, which are written anew by

PYTHONPATH=python:.:tests/unit/docs build/venv/bin/python tests/unit/docs/coverage_table.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from pages import TOP

from ssllatency.stacks.by_name import BY_NAME
from ssllatency.stacks.rustls.implementation import Rustls

PAGE = TOP / "docs" / "coverage.md"
_TABLES = re.compile(r"(?<=<!-- tables -->\n).*?(?=<!-- end of tables -->)", re.DOTALL)

COLUMNS = {
    "calls": "each call, with its outcome and its time (`trace`, `snoop`)",
    "handshakes": "each handshake, and how it ended (`handshakes`, `snoop`, `record`, `export`, `top`)",
    "private key": "the operation with the server's private key",
    "phases": "key exchange, the check of a client's certificates, and what else a handshake does",
    "waits": "for whom and how long the library waited",
    "labels": "version, suite, group, resumption, signature; with `--by` name, protocol, port and peer",
    "certificates": "which certificate a server serves, and when it expires",
    "reasons": "why a call or a handshake failed, in the library's words",
    "clients": "the same of programs that connect (`--role client`)",
    "aarch64": "its functions in builds for aarch64",
}


@dataclass(frozen=True)
class Proven:
    """The tests that prove a cell, each FILE::NAME below tests/; `but`: what isn't seen all the same."""

    tests: tuple[str, ...]
    but: str = ""


@dataclass(frozen=True)
class Row:
    """A TLS library as it is met: which versions of it, how it is linked, and for each column the proof, or why there is
    none."""

    stack: str
    versions: str
    linked: str
    cells: Mapping[str, Proven | str]


def _by(*tests: str, but: str = "") -> Proven:
    """A cell that these tests prove; a name without a file is in the file of the one before."""
    named, file = [], ""
    for test in tests:
        file, _, name = test.rpartition("::") if "::" in test else (file, "", test)
        named.append(f"{file}::{name}")
    return Proven(tuple(named), but)


_OPENSSL, _OTHER, _LIBRARIES = "live/handshakes", "live/libraries", "unit/probes/libraries"
_QUIC = f"{_OTHER}/test_quic.py::test_handshakes_of_quic"
_OVER_QUIC = (_QUIC, "test_handshakes_of_nginx_over_quic", "test_handshakes_of_haproxy_over_quic")
_PEERS_OF_QUIC = "live/quic/test_quic_peers.py"
_CURL = "test_handshakes_of_curl_over_quic"
_STATIC = f"{_OTHER}/test_static.py::test_with_its_symbol_table"
_STRIPPED = f"{_OTHER}/test_static.py::test_stripped_openssl"
_LINKED = f"{_OTHER}/test_linked.py"
_BARE_4 = f"{_OTHER}/test_embedded.py::test_a_stripped_openssl_in_another_library_is_counted"
_INSIDE = f"{_OTHER}/test_embedded.py"
_WAITS_OF_LINKED = _by(
    f"{_LINKED}::test_a_wait_of_a_linked_openssl_has_its_reason",
    "test_slow_clients_of_a_linked_openssl_own_that_time",
    "test_a_server_with_openssl_in_it_that_is_stopped_owns_that_time",
    "test_handshakes_of_a_linked_openssl_wait_for_their_offload",
)
_OLD_LINKED = "of 1.1.1l and n, in another library, functions, fields and probes are compared with those of symbols"
_NUMBERED = "unit/stacks/openssl/test_unnamed_1_1_1.py::test_functions_and_labels_are_those_of_symbols"
_EMBEDDED = f"{_OTHER}/test_embedded.py::test_openssl_in_another_library_is_counted"
_GRPC = f"{_OTHER}/test_embedded.py::test_the_stripped_boringssl_of_grpc_is_counted"
_CONSCRYPT = f"{_OTHER}/test_embedded.py::test_the_stripped_boringssl_of_conscrypt_is_counted"
_GRPC_CLIENT = f"{_OTHER}/test_embedded.py::test_handshakes_of_a_client_of_grpc_are_counted"
_ENVOY = f"{_OTHER}/test_envoy.py::test_envoys_own_statistics"
_ENVOY_LABELS = (_ENVOY, f"{_OTHER}/test_envoy.py::test_ports_and_peers_of_its_clients")
_BORING = f"{_OTHER}/test_boringssl.py"
_GNUTLS = f"{_OTHER}/test_gnutls.py"
_MBED = "live/stacks/test_mbedtls_programs.py"
_NO_KEY_KIND = "of what kind the key is isn't known"
_NO_CALLBACKS = "what is called through pointers, as a cache of sessions, is *rest*"
_S2N = "live/stacks/test_s2n.py"
_S2N_BY_ACCESSORS = (
    "without the signature, and as far as the program holds the library's accessor for each: a linker leaves out those that"
    " nothing calls"
)
_S2N_KEYS = "programs of Rust have s2n's own functions around keys inlined, and AWS-LC's names begin with a version"
_S2N_SHARED = (
    "s2n_errno, which says why a call fails, lies elsewhere in each process: calls that fail and retries aren't told apart"
)
_WOLFSSL, _WOLFSSL_CLIENTS = "live/stacks/test_wolfssl_servers.py", "live/stacks/test_wolfssl_clients.py"
_WOLFSSL_BUILT_IN = "live/stacks/test_wolfssl_built_in.py::test_calls_and_handshakes_of_programs_with_wolfssl_built_in"
_GO, _GO_HANDSHAKES = "live/go/test_go.py", "live/go/test_go_handshakes.py"
_GO_TRANSPORT = "over QUIC and a program's own transports the waits aren't known, unless these embed a socket"
_ARM_INSIDE = _by(
    f"{_LIBRARIES}/test_aarch64_libraries.py::test_an_openssl_in_another_library_is_planned",
    but="of 3.3",
)
_ARM_BORINGSSL = _by(
    f"{_LIBRARIES}/test_aarch64_libraries.py::test_a_boringssl_in_another_library_is_planned",
    but="of Netty's",
)
_ARM_BARE_BORINGSSL = _by(
    f"{_LIBRARIES}/test_aarch64_libraries.py::test_a_stripped_boringssl_is_found",
    but="of Netty's",
)
_ARM_BARE_OPENSSL = _by(
    "unit/stacks/openssl/test_unnamed_aarch64.py::test_functions_of_aarch64_are_those_of_symbols",
    "test_fields_and_labels_of_aarch64_are_those_of_symbols",
    "test_plans_of_aarch64_are_those_of_symbols",
    "test_handshakes_of_aarch64_are_those_of_symbols",
)
_ARM_OPENSSL = _by(f"{_LIBRARIES}/test_aarch64_libraries.py::test_all_operations_that_the_library_has_are_planned")
_BY_HAND = "of 3.2, 3.4 and 3.5 functions, fields and probes were compared with those of symbols, by hand"
_AWS_LC_RS = f"{_OTHER}/test_rustls.py::test_functions_of_aws_lc_rs_are_counted"
_GRANIAN = f"{_OTHER}/test_embedded.py::test_functions_of_rustls_in_a_stripped_library_are_counted"
_RING = (f"{_OTHER}/test_rustls.py::test_functions_of_rustls_with_ring_are_counted", _GRANIAN)
_BY_TRACE = "by trace alone"
_RING_ARM = "those with symbols by their names, not tried; without symbols none"
_NOT_TRIED = "not tried"
_JSSE = "Java's own TLS (JSSE)"
_JAVA = f"{_OTHER}/test_java.py::test_handshakes_of_jsse_are_counted"
_JAVA_CLIENTS = f"{_OTHER}/test_java.py::test_handshakes_of_clients_of_jsse_are_counted"
_UNTOLD_BY_JFR = "the JVM's Flight Recorder doesn't tell it"
_NO_MORE = "it is recognised by the name of its library, not traced"
_SOME_LABELS = "port and peer of servers alone that read in the handshake's calls, but for the first ones of a run"
_NO_TICKETS = "the look-up of sessions and callbacks aren't told from the rest"
_NO_UNWIND_TABLES = (
    "nothing in such a file tells where a function begins, so that none is probed, with a debug file neither; a build that has"
    " its symbol table would help. What is seen from outside are its connections, as by `ss -ti`"
)
_TRIED_BARE = (
    "tried by hand alone: of 0.47 functions, sites and labels are those of symbols, but for the name that clients ask for;"
    " whether these have certificates isn't known"
)
_TRIED = "tried by hand alone: 0.47 is planned as for x86-64, but whether clients have certificates isn't known"
_NO_CACHE = "what the library looks up in its own cache of sessions isn't told from the rest"
_NO_PORT = "the port isn't always known; those of RSA key exchange don't count"
_CALLBACKS = "test_callbacks_and_what_looks_sessions_up"
_BORING_LABELS = ("test_certificates_of_clients", "test_names_that_clients_ask_for", "test_ports_and_peers_of_clients")

_ECH = "live/handshakes/test_ech.py::test_a_server_of_encrypted_hellos"

ROWS = (
    Row(
        "OpenSSL",
        "1.1.1 to 4.0",
        "shared, stripped",
        {
            "calls": _by(
                "live/exact/test_exact.py::test_full_handshakes",
                f"{_OTHER}/test_other_openssl.py::test_openssl_1_1_1",
                "test_nginx_of_debian_13",
                _ECH,
            ),
            "handshakes": _by(f"{_OPENSSL}/test_handshakes.py::test_what_h2load_completed", "test_what_s_time_completed", _ECH),
            "private key": _by(
                "live/exact/test_exact.py::test_pkcs1_signature_is_an_rsa_sign", "test_rsa_key_exchange_decrypts"
            ),
            "phases": _by(
                f"{_OPENSSL}/test_handshakes.py::test_phases",
                "test_peer_verification_is_for_client_certificates",
                "unit/probes/handshake/test_handshake_plan.py::test_every_call_of_a_handshake_is_found",
            ),
            "waits": _by(
                f"{_OPENSSL}/test_queue.py::test_a_server_that_is_late_is_told_with_the_cause",
                "test_a_slow_client_is_not_told_as_a_late_server",
                f"{_OPENSSL}/test_blocking.py::test_a_slow_client_of_apache",
            ),
            "labels": _by(
                f"{_OPENSSL}/test_handshakes.py::test_labels",
                "test_groups_and_signatures_that_s_client_tells",
                f"{_OPENSSL}/test_who.py::test_names_protocols_listeners_and_networks",
                _ECH,
                "test_a_session_that_an_encrypted_hello_resumes",
            ),
            "certificates": _by(f"{_OPENSSL}/test_who.py::test_certificates_by_name_and_after_a_reload"),
            "reasons": _by(
                f"{_OPENSSL}/test_failed.py::test_what_nginx_logs",
                "test_certificates_of_clients",
                _ECH,
                "test_an_encrypted_hello_that_cannot_be_read",
            ),
            "clients": _by(
                f"{_OPENSSL}/test_odd.py::test_ways_to_shake_hands",
                "test_both_sides_in_one_process",
                "live/handshakes/test_ech.py::test_clients_that_encrypt_their_hellos",
            ),
            "aarch64": _ARM_OPENSSL,
        },
    ),
    Row(
        "OpenSSL",
        "3.5, QUIC",
        "shared, stripped; its own QUIC, as in curl, and that of nginx and haproxy",
        {
            **dict.fromkeys(("calls", "handshakes", "private key", "phases"), _by(*_OVER_QUIC)),
            "clients": _by(_QUIC, _CURL),
            "waits": _by(
                *_OVER_QUIC,
                "test_the_round_trip_of_an_address_validation",
                "test_requests_without_tls_are_not_taken_for_those_of_quic",
                "live/quic/test_quic_retries.py::test_handshakes_after_a_retry_are_counted",
                "test_retries_of_openssls_own_quic",
                but="when a packet arrived isn't seen, so it is *wait: peer or server*",
            ),
            "labels": _by(
                *_OVER_QUIC,
                _CURL,
                f"{_PEERS_OF_QUIC}::test_peers_over_quic_are_their_clients_own_addresses",
                "test_peers_of_openssls_own_quic",
                "test_ports_of_one_process_over_ipv4_and_ipv6",
                "test_peers_over_quic_in_network_namespaces",
                "test_a_client_that_knows_anothers_ids_takes_no_handshake_over",
                but="port and peer of servers alone, but for the first ones of a process",
            ),
            "reasons": _by(
                *_OVER_QUIC,
                _CURL,
                "test_failures_of_quic_have_their_reasons",
                but="of the side that refuses; the other one's is given up, as QUIC takes the alert there",
            ),
            "certificates": _by(*_OVER_QUIC, "test_the_certificate_that_is_served_over_quic"),
            "aarch64": _ARM_OPENSSL,
        },
    ),
    Row(
        "OpenSSL",
        "1.1.1 to 3.5",
        "inside another library, or static with symbols or a debug file",
        {
            **dict.fromkeys(
                ("calls", "handshakes", "private key", "labels"),
                _by(_EMBEDDED, _STATIC, "test_by_its_build_id_in_its_own_root"),
            ),
            "phases": _by(_EMBEDDED, f"{_LINKED}::test_sides_of_a_linked_openssl"),
            "waits": _WAITS_OF_LINKED,
            "reasons": _by(_EMBEDDED, f"{_LINKED}::test_failures_of_a_linked_openssl_have_their_reasons"),
            "certificates": _by(f"{_LINKED}::test_certificate_and_signature_of_a_linked_openssl"),
            "clients": _by(f"{_LINKED}::test_sides_of_a_linked_openssl"),
            "aarch64": _ARM_INSIDE,
        },
    ),
    Row(
        "OpenSSL",
        "3.0 and 4.0",
        "static or inside another library, stripped",
        {
            **dict.fromkeys(("calls", "handshakes"), _by(_STRIPPED, _BARE_4, but=_BY_HAND)),
            "private key": _by(_STRIPPED, _BARE_4),
            "phases": _by(_STRIPPED, _BARE_4, f"{_LINKED}::test_sides_of_a_linked_openssl", but=_NO_TICKETS),
            "waits": _by(
                *_WAITS_OF_LINKED.tests,
                f"{_INSIDE}::test_a_slow_client_of_a_stripped_openssl_in_another_library",
                but="when an offload was done isn't seen of 3.3 and 4.0, nor so how late the server came back for it",
            ),
            "labels": _by(
                _STRIPPED,
                _BARE_4,
                f"{_LINKED}::test_names_protocols_and_resumption_of_a_linked_openssl",
                "test_slow_clients_of_a_linked_openssl_own_that_time",
                "test_certificate_and_signature_of_a_linked_openssl",
                "test_a_client_of_a_linked_openssl_has_a_certificate_or_none",
                f"{_INSIDE}::test_certificates_of_a_stripped_openssl_in_another_library",
            ),
            "reasons": _by(f"{_LINKED}::test_failures_of_a_linked_openssl_have_their_reasons", _BARE_4),
            "clients": _by(
                f"{_LINKED}::test_sides_of_a_linked_openssl",
                f"{_INSIDE}::test_a_client_of_a_stripped_openssl_in_another_library",
            ),
            "certificates": _by(
                f"{_LINKED}::test_certificate_and_signature_of_a_linked_openssl",
                f"{_INSIDE}::test_certificates_of_a_stripped_openssl_in_another_library",
            ),
            "aarch64": replace(_ARM_BARE_OPENSSL, but="of 3.0, 3.3, 3.5 and 4.0"),
        },
    ),
    Row(
        "OpenSSL",
        "1.1.1",
        "static or inside another library, stripped",
        {
            **dict.fromkeys(("calls", "handshakes", "private key"), _by(f"{_STRIPPED}_1_1_1", _NUMBERED, but=_OLD_LINKED)),
            "phases": _by(f"{_LINKED}::test_sides_of_a_linked_openssl", _NUMBERED, but=_NO_TICKETS),
            "waits": _WAITS_OF_LINKED,
            "labels": _by(
                f"{_LINKED}::test_names_protocols_and_resumption_of_a_linked_openssl",
                "test_certificate_and_signature_of_a_linked_openssl",
                "test_a_client_of_a_linked_openssl_has_a_certificate_or_none",
                _NUMBERED,
                but="the group isn't kept by OpenSSL 1.1.1",
            ),
            "certificates": _by(f"{_LINKED}::test_certificate_and_signature_of_a_linked_openssl"),
            "reasons": _by(f"{_LINKED}::test_failures_of_a_linked_openssl_have_their_reasons"),
            "clients": _by(f"{_LINKED}::test_sides_of_a_linked_openssl"),
            "aarch64": replace(_ARM_BARE_OPENSSL, but="of 1.1.1l"),
        },
    ),
    Row(
        "BoringSSL",
        "of 2025",
        "static or inside another library, with symbols",
        {
            **dict.fromkeys(("calls", "handshakes"), _by(f"{_BORING}::test_every_call", "test_what_is_put_off")),
            "private key": _by(f"{_BORING}::test_every_call", "test_rsa_decrypts_the_key"),
            "phases": _by(f"{_BORING}::test_every_call", "test_what_is_put_off", _CALLBACKS, but=_NO_CACHE),
            "certificates": _by(f"{_BORING}::test_the_certificate_that_it_serves", but=_NO_PORT),
            "waits": _by(f"{_BORING}::test_what_is_put_off"),
            "labels": _by(f"{_BORING}::test_every_call", *_BORING_LABELS, but=_SOME_LABELS),
            "reasons": _by(f"{_BORING}::test_handshakes_that_fail"),
            "clients": _by(f"{_BORING}::test_clients"),
            "aarch64": _ARM_BORINGSSL,
        },
    ),
    Row(
        "BoringSSL",
        "of 2025",
        "static or inside another library, stripped",
        {
            "calls": _by(f"{_BORING}::test_stripped", _GRPC, _CONSCRYPT),
            **dict.fromkeys(("handshakes", "private key"), _by(f"{_BORING}::test_stripped", _GRPC, _CONSCRYPT, _ENVOY)),
            "phases": _by(f"{_BORING}::test_stripped", _CALLBACKS, _GRPC, _CONSCRYPT, _ENVOY, but=_NO_CACHE),
            "certificates": _by(f"{_BORING}::test_the_certificate_that_it_serves", _GRPC, _CONSCRYPT, _ENVOY, but=_NO_PORT),
            "waits": _by(f"{_BORING}::test_stripped"),
            "labels": _by(f"{_BORING}::test_stripped", *_BORING_LABELS, _GRPC, _CONSCRYPT, *_ENVOY_LABELS, but=_SOME_LABELS),
            "reasons": _by(f"{_BORING}::test_stripped", _CONSCRYPT, _ENVOY),
            "clients": _by(_GRPC_CLIENT, f"{_BORING}::test_clients"),
            "aarch64": _ARM_BARE_BORINGSSL,
        },
    ),
    Row("BoringSSL", "any", "in a program without unwind tables, stripped, as bun", dict.fromkeys(COLUMNS, _NO_UNWIND_TABLES)),
    Row(
        "AWS-LC",
        "1.x",
        "static, with symbols",
        {
            **dict.fromkeys(("calls", "handshakes"), _by(f"{_BORING}::test_every_call", "test_what_is_put_off")),
            "private key": _by(f"{_BORING}::test_every_call", "test_rsa_decrypts_the_key"),
            "phases": _by(f"{_BORING}::test_every_call", "test_what_is_put_off", _CALLBACKS, but=_NO_CACHE),
            "certificates": _by(f"{_BORING}::test_the_certificate_that_it_serves", but=_NO_PORT),
            "waits": _by(f"{_BORING}::test_what_is_put_off"),
            "labels": _by(f"{_BORING}::test_every_call", *_BORING_LABELS, but=_SOME_LABELS),
            "reasons": _by(f"{_BORING}::test_handshakes_that_fail"),
            "clients": _by(f"{_BORING}::test_clients"),
            "aarch64": _TRIED,
        },
    ),
    Row(
        "AWS-LC",
        "1.x",
        "static, stripped",
        {
            **dict.fromkeys(("calls", "handshakes", "private key", "waits", "reasons"), _by(f"{_BORING}::test_stripped")),
            "phases": _by(f"{_BORING}::test_stripped", _CALLBACKS, but=_NO_CACHE),
            "certificates": _by(f"{_BORING}::test_the_certificate_that_it_serves", but=_NO_PORT),
            "labels": _by(f"{_BORING}::test_stripped", *_BORING_LABELS, but=_SOME_LABELS),
            "clients": _by(f"{_BORING}::test_clients"),
            "aarch64": _TRIED_BARE,
        },
    ),
    Row(
        "GnuTLS",
        "3.7.1 to 3.8.13",
        "shared, stripped",
        {
            "calls": _by(f"{_GNUTLS}::test_its_calls_are_counted"),
            "handshakes": _by(f"{_OTHER}/test_gnutls_servers.py::test_handshakes_are_as_many_as_clients_and_servers_say"),
            "private key": _by(f"{_GNUTLS}::test_its_handshakes_have_labels"),
            "phases": _by(
                f"{_GNUTLS}::test_its_handshakes_have_labels",
                "unit/stacks/gnutls/test_gnutls.py::test_calls_of_key_exchange_are_found",
            ),
            "waits": _by(
                f"{_GNUTLS}::test_a_slow_client_is_waited_for",
                f"{_OTHER}/test_gnutls_servers.py::test_handshakes_fail_as_the_logs_say_and_slow_clients_are_waited_for",
            ),
            "labels": _by(f"{_GNUTLS}::test_its_handshakes_have_labels", "test_who_shook_hands"),
            "certificates": _by(
                f"{_GNUTLS}::test_the_certificate_that_it_was_given",
                but="how many are sent with one isn't known, those of RSA key exchange don't count; 3.8.13 wasn't tried",
            ),
            "reasons": _by(
                f"{_OTHER}/test_gnutls_servers.py::test_handshakes_fail_as_the_logs_say_and_slow_clients_are_waited_for",
                f"{_GNUTLS}::test_its_failures_are_those_that_it_tells",
            ),
            "clients": _by(
                f"{_OTHER}/test_gnutls_clients.py::test_each_of_their_handshakes_counts_and_fails_as_they_say",
                "live/quic/test_quic_gnutls.py::test_handshakes_of_a_gnutls_client_over_quic",
            ),
            "aarch64": _by("unit/stacks/gnutls/test_gnutls.py::test_each_of_its_functions_is_planned"),
        },
    ),
    Row(
        "Mbed TLS",
        "2.28.3, 3.6.6",
        "shared, stripped; static with symbols",
        {
            "calls": _by(f"{_MBED}::test_handshakes_and_calls_are_as_many_as_servers_and_clients_say"),
            "handshakes": _by(
                f"{_MBED}::test_handshakes_and_calls_are_as_many_as_servers_and_clients_say",
                f"{_MBED}::test_resumed_abandoned_and_slow_handshakes_in_a_program_that_has_it_built_in",
            ),
            "private key": _by(
                f"{_MBED}::test_resumed_abandoned_and_slow_handshakes_in_a_program_that_has_it_built_in",
                but=_NO_KEY_KIND,
            ),
            "phases": _by(f"{_MBED}::test_certificates_of_clients_are_checked", but=_NO_CALLBACKS),
            "waits": _by(f"{_MBED}::test_resumed_abandoned_and_slow_handshakes_in_a_program_that_has_it_built_in"),
            "labels": _by(
                f"{_MBED}::test_handshakes_and_calls_are_as_many_as_servers_and_clients_say",
                but="whether a session was resumed, group, signature, client certificate and SNI aren't known",
            ),
            "certificates": "a handshake of Mbed TLS keeps nothing of the certificate that it has served",
            "reasons": _by(f"{_MBED}::test_handshakes_of_lighttpd_end_as_its_log_says"),
            "clients": _by(f"{_MBED}::test_handshakes_of_clients_are_theirs"),
            "aarch64": _by("unit/stacks/mbedtls/test_mbedtls.py::test_each_of_its_functions_is_planned"),
        },
    ),
    Row(
        "s2n-tls",
        "0.3.47 of Rust's package",
        "in the program, with symbols",
        {
            "calls": _by(f"{_S2N}::test_each_call_and_handshake_counts", "test_each_call_is_a_line_of_snoop"),
            "handshakes": _by(f"{_S2N}::test_each_call_and_handshake_counts"),
            "private key": _S2N_KEYS,
            "phases": "the key exchange alone, and no test compares it",
            "waits": _by(
                f"{_S2N}::test_a_slow_client_is_waited_for",
                "test_what_a_call_waits_for_is_told_by_its_output",
                "test_a_key_that_is_used_elsewhere_is_a_wait_for_the_application",
            ),
            "labels": _by(f"{_S2N}::test_labels_are_those_that_the_server_tells", but=_S2N_BY_ACCESSORS),
            "certificates": "what a server serves isn't looked for",
            "reasons": _by(f"{_S2N}::test_each_call_and_handshake_counts", but="without the alert that was sent"),
            "clients": _by(f"{_S2N}::test_its_client_counts_as_one_and_agrees_by_ml_kem"),
            "aarch64": _NOT_TRIED,
        },
    ),
    Row(
        "s2n-tls",
        "any",
        "shared, or in another library",
        {
            **dict.fromkeys(COLUMNS, _S2N_SHARED),
            "certificates": "what a server serves isn't looked for",
            "aarch64": _NOT_TRIED,
        },
    ),
    Row(
        "wolfSSL",
        "5.5.4, 5.7.2",
        "shared, stripped; static with symbols",
        {
            "calls": _by(
                f"{_WOLFSSL}::test_its_calls_and_handshakes_are_those_that_it_tells",
                "test_a_server_that_waits_for_all_of_its_sockets",
                _WOLFSSL_BUILT_IN,
            ),
            "handshakes": _by(
                f"{_WOLFSSL}::test_its_calls_and_handshakes_are_those_that_it_tells",
                "test_a_server_that_waits_for_all_of_its_sockets",
                _WOLFSSL_BUILT_IN,
            ),
            "private key": _by(f"{_WOLFSSL}::test_its_handshakes_have_labels_and_phases"),
            "phases": _by(
                f"{_WOLFSSL}::test_its_handshakes_have_labels_and_phases",
                "test_certificates_of_clients_are_checked",
                but="of clients of TLS 1.2 on x86-64 only a part of the key exchange, and no check of an RSA signature",
            ),
            "waits": _by(
                f"{_WOLFSSL}::test_a_server_that_waits_for_all_of_its_sockets",
                f"{_WOLFSSL_CLIENTS}::test_clients_wait_for_slow_servers",
            ),
            "labels": _by(
                f"{_WOLFSSL}::test_its_handshakes_have_labels_and_phases",
                but="version, cipher suite, resumption, port and peer, and up to 5.7 the group; no others",
            ),
            "certificates": "no accessor shows which one is served",
            "reasons": _by(f"{_WOLFSSL}::test_its_calls_and_handshakes_are_those_that_it_tells"),
            "clients": _by(
                f"{_WOLFSSL_CLIENTS}::test_each_handshake_and_call_of_clients_counts",
                "test_clients_resume_their_sessions",
                "test_clients_say_why_they_refuse_a_certificate",
                "test_clients_show_certificates_and_are_refused",
                "test_authentication_after_the_handshake_is_none",
            ),
            "aarch64": _by("unit/stacks/wolfssl/test_wolfssl.py::test_each_of_its_functions_is_planned"),
        },
    ),
    Row(
        "Go crypto/tls",
        "1.18 to 1.27",
        "in the program, stripped or not",
        {
            "calls": _by(f"{_GO}::test_each_call_is_counted_with_its_outcome", "test_each_call_is_a_line_of_snoop"),
            "handshakes": _by(
                f"{_GO_HANDSHAKES}::test_each_handshake_has_its_outcome_and_labels",
                "test_export_and_top_count_each_handshake",
                "live/go/test_go_servers.py::test_each_handshake_of_caddy_is_counted",
                "test_each_handshake_of_a_reverse_proxy_is_counted",
                "test_each_handshake_of_a_grpc_server_is_counted",
            ),
            "private key": _by(
                f"{_GO_HANDSHAKES}::test_labels_are_those_that_clients_have_negotiated",
                "test_each_handshake_has_its_outcome_and_labels",
                "test_keys_elsewhere_are_private_keys_as_well",
            ),
            "phases": _by(
                f"{_GO_HANDSHAKES}::test_labels_are_those_that_clients_have_negotiated",
                "test_each_handshake_has_its_outcome_and_labels",
                but="of ML-KEM before Go 1.26 only the encapsulation is seen",
            ),
            "waits": _by(
                f"{_GO_HANDSHAKES}::test_each_handshake_has_its_outcome_and_labels",
                "live/go/test_go_transports.py::test_over_a_socket_it_waits_for_its_peer",
                but=_GO_TRANSPORT,
            ),
            "labels": _by(
                f"{_GO_HANDSHAKES}::test_labels_are_those_that_clients_have_negotiated",
                "live/go/test_go_servers.py::test_each_handshake_of_caddy_is_counted",
                but="the group is known since Go 1.23 only",
            ),
            "certificates": _by("live/go/test_go_certificates.py::test_the_certificate_that_caddy_was_given"),
            "reasons": _by(f"{_GO_HANDSHAKES}::test_failures_have_their_reasons"),
            "clients": _by(
                f"{_GO}::test_sides_are_told_apart", f"{_GO_HANDSHAKES}::test_each_handshake_has_its_outcome_and_labels"
            ),
            "aarch64": _by("unit/stacks/go/test_real.py::test_all_functions_that_this_version_has_are_planned"),
        },
    ),
    Row("rustls", "any", "in the program or library", dict.fromkeys(COLUMNS, Rustls().instead)),
    Row(
        "rustls",
        "0.23 with ring",
        "in the program or library, stripped or not",
        {
            **dict.fromkeys(COLUMNS, Rustls().instead),
            "private key": _by(*_RING, but="by trace alone, without how each ended"),
            "phases": _by(*_RING, but="by trace alone, the key exchange, without how each ended"),
            "aarch64": _RING_ARM,
        },
    ),
    Row(
        "rustls",
        "0.23 with aws-lc-rs",
        "in the program or library, with symbols",
        {
            **dict.fromkeys(COLUMNS, Rustls().instead),
            "private key": _by(_AWS_LC_RS, but=_BY_TRACE),
            "phases": _by(_AWS_LC_RS, but="by trace alone, the key exchange"),
            "aarch64": _NOT_TRIED,
        },
    ),
    *(
        Row(other.name, "any", "shared", dict.fromkeys(COLUMNS, other.instead or _NO_MORE))
        for other in BY_NAME
        if other.name != _JSSE
    ),
    Row(
        _JSSE,
        "JDK 17 to 24",
        "in the JVM, by `handshakes --jfr`",
        {
            **dict.fromkeys(COLUMNS, _UNTOLD_BY_JFR),
            "handshakes": _by(_JAVA, but="their number, without times; of TLS 1.2 a server's only where a session is resumed"),
            "labels": _by(_JAVA, but="version and suite, without the side"),
            "clients": _by(_JAVA_CLIENTS, but="in the same rows as what the JVM serves; of TLS 1.2 only full handshakes"),
            "aarch64": _NOT_TRIED,
        },
    ),
    Row(
        _JSSE,
        "JDK 25",
        "in the JVM, by `handshakes --jfr`",
        {
            **dict.fromkeys(COLUMNS, _UNTOLD_BY_JFR),
            "handshakes": _by(_JAVA, but="their number by side and version, and the failures, without times"),
            "private key": _by(_JAVA, but="signatures, with mean, least and most"),
            "phases": _by(
                _JAVA_CLIENTS, but="key derivation, and checks of certificates that succeed, with mean, least and most"
            ),
            "labels": _by(_JAVA, but="version and suite; of TLS 1.2 a server's suite only where a session is resumed"),
            "reasons": _by(_JAVA, but="of at most 100 exceptions a second"),
            "clients": _by(_JAVA_CLIENTS),
            "aarch64": _NOT_TRIED,
        },
    ),
)


def _cells(row: Row, marks: dict[str, int]) -> Iterator[str]:
    for column in COLUMNS:
        cell = row.cells[column]
        reason = cell if isinstance(cell, str) else cell.but
        mark = f" [{marks.setdefault(reason, len(marks) + 1)}]" if reason else ""
        yield ("—" if isinstance(cell, str) else "yes") + mark


def _tests_of(row: Row) -> Iterator[str]:
    for column in COLUMNS:
        cell = row.cells[column]
        if isinstance(cell, Proven):
            for test in cell.tests:
                file, _, name = test.partition("::")
                yield f"[{name.removeprefix('test_').replace('_', ' ')}](../tests/{file})"


def rendered() -> str:
    """The tables, from the first row to the last reason."""
    marks: dict[str, int] = {}
    lines = [f"| library | versions | linked | {' | '.join(COLUMNS)} |", f"|{'---|' * (3 + len(COLUMNS))}"]
    lines += [f"| {row.stack} | {row.versions} | {row.linked} | {' | '.join(_cells(row, marks))} |" for row in ROWS]
    reasons = [f"{number}. {reason.removesuffix('.')}." for reason, number in marks.items()]
    columns = [f"- **{name}**: {meaning}" for name, meaning in COLUMNS.items()]
    proofs = [
        f"- **{row.stack} {row.versions}, {row.linked}**: {', '.join(tests)}"
        for row in ROWS
        if (tests := list(dict.fromkeys(_tests_of(row))))
    ]
    return "\n".join((*lines, "", *reasons, "", "The columns:", "", *columns, "", "The tests:", "", *proofs, "", ""))


def page() -> str:
    """The whole page, with the tables as they should be."""
    return _TABLES.sub(lambda _: rendered(), PAGE.read_text())


if __name__ == "__main__":
    PAGE.write_text(page())
