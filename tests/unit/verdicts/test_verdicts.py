# SPDX-License-Identifier: Apache-2.0
"""Outcomes, labels and QUIC's IDs by the million: the kernel side's own headers, compiled for this machine with sanitizers, on
made-up connections, each held against what was made up; and whether they and the stacks in Python mean the same by each
code."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests import programs

from ssllatency import abi
from ssllatency.stacks.base import Stack
from ssllatency.stacks.registry import STACKS
from ssllatency.stacks.waits import WAITS

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
BPF = HERE.parents[2] / "bpf"
SANITIZERS = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
# What every machine has: the headers for registers choose by it, and no register is read here.
DEFINES = ("-D__TARGET_ARCH_x86",)
VERDICTS = {
    (abi.Outcome.FAILURE, reason) for reason in (abi.Reason.UNKNOWN, abi.Reason.SSL, abi.Reason.SYSCALL)
} | {(abi.Outcome.CLOSED, abi.Reason.ZERO_RETURN)} | {
    (abi.Outcome.RETRY, reason)
    for reason in abi.Reason
    if reason not in (abi.Reason.SSL, abi.Reason.SYSCALL, abi.Reason.ZERO_RETURN, abi.Reason.NONE)
}  # fmt: skip
# A defect that is planted in a header: (program, header, what stands there, what stands there then).
DEFECTS = [
    ("verdicts", "stacks/openssl.bpf.h", "returned == 0 && ", ""),
    ("verdicts", "stacks/openssl.bpf.h", "&state) && state == OPENSSL_FLOW_ERROR", "&state) && state == OPENSSL_NOTHING + 1"),
    ("verdicts", "stacks/openssl.bpf.h", "wait.flags & OPENSSL_BIO_SPECIAL && wait.reason == OPENSSL_BIO_ACCEPT", "0"),
    ("verdicts", "stacks/boringssl.bpf.h", "\tcase BORINGSSL_HANDSHAKE_HINTS_READY:\n", ""),
    ("verdicts", "stacks/boringssl.bpf.h", "retry(SSLL_WAIT_APPLICATION, own)", "retry(SSLL_WAIT_LOOKUP, own)"),
    (
        "verdicts",
        "stacks/openssl.bpf.h",
        "retry(SSLL_WAIT_OFFLOAD, SSLL_REASON_WANT_ASYNC)",
        "retry(8, SSLL_REASON_WANT_ASYNC)",
    ),
    ("verdicts", "stacks/connection.bpf.h", "library->holder >= 0 && ", "0 && "),
    ("verdicts", "stacks/connection.bpf.h", "(bio + library->bio_flags)", "(bio)"),
    ("verdicts", "stacks/outcome.bpf.h", "return number >= 0;", "return number > 0;"),
    ("verdicts", "stacks/outcome.bpf.h", "number > 0 : number >= 0;", "number >= 0 : number >= 0;"),
    ("verdicts", "stacks/outcome.bpf.h", "return !returned;", "return !number;"),
    ("verdicts", "stacks/outcome.bpf.h", "(status & 0x22222222U) >> 1", "status & 0x22222222U"),
    ("verdicts", "stacks/gnutls.bpf.h", "if ((__u8)*code)", "if (*code)"),
    ("verdicts", "stacks/gnutls.bpf.h", "\tcase GNUTLS_INTERRUPTED:\n", ""),
    ("verdicts", "stacks/gnutls.bpf.h", "GNUTLS_PREMATURE_TERMINATION = -110", "GNUTLS_PREMATURE_TERMINATION = -11"),
    ("verdicts", "stacks/mbedtls.bpf.h", "\tcase MBEDTLS_TIMEOUT:", "\tcase MBEDTLS_TIMEOUT + 1:"),
    ("verdicts", "stacks/mbedtls.bpf.h", ">= MBEDTLS_3", ">= 0"),
    ("verdicts", "stacks/mbedtls.bpf.h", "\tcase MBEDTLS_CONN_EOF:\n", ""),
    ("verdicts", "stacks/s2n.bpf.h", "\tif (!returned)\n", "\tif (0)\n"),
    ("verdicts", "stacks/s2n.bpf.h", "cursors[0] != cursors[1]", "cursors[0] > cursors[1]"),
    ("verdicts", "stacks/s2n.bpf.h", "\tcase S2N_TYPE_BLOCKED:\n", ""),
    ("verdicts", "common/tasks.bpf.h", "thread.fsbase) - distance", "thread.fsbase) + distance"),
    ("verdicts", "stacks/wolfssl.bpf.h", "WOLFSSL_OCSP_WANT_READ = -408", "WOLFSSL_OCSP_WANT_READ = -409"),
    ("verdicts", "stacks/wolfssl.bpf.h", "*code || returned ?", "*code ?"),
    ("labels", "labels/paths.bpf.h", "if (step + 1 >= path->length)", "if (step >= path->length)"),
    ("labels", "labels/paths.bpf.h", "(value, 2, (void *)at)", "(value, 4, (void *)at)"),
    ("labels", "labels/paths.bpf.h", "*value = (__u16)*value;", ""),
    ("labels", "handshakes/labels.bpf.h", "return agreed && ", "return "),
    ("labels", "labels/paths.bpf.h", "if (!path->size) {", "if (path->size == 8) {"),
    ("labels", "labels/paths.bpf.h", "*value &= path->bits;", "*value |= path->bits;"),
    ("labels", "handshakes/labels.bpf.h", "!tells_certificate(ssl, library) || ", ""),
    ("labels", "handshakes/labels.bpf.h", "if (!peer)\n\t\tread_place", "if (!mode)\n\t\tread_place"),
    ("labels", "stacks/stacks.bpf.h", "return read_side(ssl, library, &server) && server;", "return true;"),
    ("labels", "handshakes/labels.bpf.h", "== OPENSSL_TLS1_3 || keeps_server_state", "!= OPENSSL_TLS1_3 || keeps_server_state"),
    ("labels", "stacks/stacks.bpf.h", "mode != 0 : mode", "mode & OPENSSL_VERIFY_PEER : mode"),
    ("labels", "stacks/gnutls.bpf.h", "GNUTLS_CREDENTIALS_CERTIFICATE = 1,", "GNUTLS_CREDENTIALS_CERTIFICATE = 2,"),
    ("labels", "labels/texts.bpf.h", "size > SSLL_TEXT_LENGTH + 1", "size > SSLL_TEXT_LENGTH"),
    ("labels", "labels/texts.bpf.h", "\t\ttext.bytes[SSLL_TEXT_LENGTH] = 0;", "\t\t;"),
    ("quic", "labels/quic_ids.bpf.h", "<< 2 >> 2 >>", ">>"),
    ("quic", "labels/quic_ids.bpf.h", "size > end - at || ", ""),
    ("quic", "labels/quic_ids.bpf.h", "!at || length > end - at", "!at"),
    ("quic", "labels/quic_ids.bpf.h", "found <= PARAMETERS_DAMAGED || !length", "found <= PARAMETERS_DAMAGED"),
    ("quic", "labels/quic_ids.bpf.h", "\t\tif (at == end)\n\t\t\treturn 0;\n", ""),
    ("quic", "labels/quic_ids.bpf.h", "\t\t\treturn PARAMETERS_DAMAGED;\n", "\t\t\treturn 0;\n"),
    ("quic", "labels/quic_ids.bpf.h", "return found ? QUIC_RETRY_SENT : ", "return "),
    ("quic", "labels/quic_ids.bpf.h", "if (bpf_ntohs(head.length) > end - at)\n\t\t\treturn 0;", ""),
    ("quic", "labels/quic_ids.bpf.h", "head.kind != TLS_ENCRYPTED_EXTENSIONS || ", ""),
    ("quic", "labels/quic_ids.bpf.h", "length != 4ULL + ", "0 && 4ULL + "),
    ("quic", "labels/quic_ids.bpf.h", "length != sizeof(head) + ", "0 && sizeof(head) + "),
    ("quic", "labels/quic_ids.bpf.h", "kind == 0 || kind == 2", "kind != 1"),
    ("quic", "labels/quic_ids.bpf.h", "version == QUIC_V1 && ", ""),
    ("quic", "labels/quic_ids.bpf.h", "first & 0x80 && ", ""),
    ("quic", "labels/quic_ids.bpf.h", " || head[5] > sizeof(id->bytes)", ""),
    ("quic", "labels/quic_ids.bpf.h", "!length || at + length > end", "!length"),
]


def build(name: str, folder: Path, headers: Path, *options: str) -> Path:
    """The program of this name, with these headers of the kernel side."""
    programs.needed("gcc")
    built = folder / name
    sources = [HERE / f"{name}.c", HERE / "made_up.c"]
    warnings = ("-Wall", "-Wno-unused-function", "-Wno-unused-variable", "-Wno-unknown-pragmas")
    includes = (f"-I{HERE / 'host'}", f"-I{headers}", f"-I{HERE}")
    subprocess.run(["gcc", "-std=gnu11", *warnings, *options, *DEFINES, *includes, "-o", built, *sources], check=True)
    return built


def test_each_of_two_million_connections_is_judged_as_openssl_does(tmp_path: Path) -> None:
    program = build("verdicts", tmp_path, BPF, *SANITIZERS)
    done = subprocess.run([program, "2000000"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    told = {(int(outcome), int(reason)): int(count) for outcome, reason, count in map(str.split, done.stdout.splitlines())}
    assert told.keys() == VERDICTS
    assert min(told.values()) > 100


def test_labels_of_a_million_connections_are_those_that_were_made_up(tmp_path: Path) -> None:
    program = build("labels", tmp_path, BPF, *SANITIZERS)
    done = subprocess.run([program, "1000000"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    known = {int(label): int(count) for label, count in map(str.split, done.stdout.splitlines())}
    assert known.keys() == set(range(abi.Label.ROLE))
    assert all(100_000 < count < 900_000 for count in known.values())


def test_ids_of_a_million_connections_over_quic_are_those_that_were_made_up(tmp_path: Path) -> None:
    """In what a server tells and in its packets, damaged ones among them; and whether it has sent a Retry."""
    program = build("quic", tmp_path, BPF, *SANITIZERS)
    done = subprocess.run([program, "1000000"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    counts = [int(count) for count in done.stdout.split()]
    assert len(counts) == 4
    assert all(100_000 < count < 800_000 for count in counts)


@pytest.mark.parametrize("stack", [stack for stack in STACKS if stack.codes.waits], ids=lambda stack: stack.name)
def test_both_sides_mean_the_same_by_each_code(tmp_path: Path, stack: Stack) -> None:
    program = build("verdicts", tmp_path, BPF)
    done = subprocess.run([program, "0", str(stack.number.value)], capture_output=True, text=True, check=True)
    verdicts = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    codes = stack.codes
    waits: dict[abi.Reason, abi.Wait] = {}
    for code, outcome, wait, part, end, reason in verdicts:
        if outcome == abi.Outcome.RETRY:
            waits[abi.Reason(reason)] = abi.Wait(wait)
            assert part == WAITS[abi.Wait(wait)].part
            assert code in (codes.reading, codes.writing) or codes.reasons[code] is abi.Reason(reason)
        elif code in codes.ends:
            assert codes.ends[code] == (outcome, reason)
        else:
            assert code not in codes.reasons
        assert (end == abi.End.NONE) == (outcome == abi.Outcome.RETRY)
    assert waits | {abi.Reason.UNKNOWN: abi.Wait.UNKNOWN} == codes.waits


@pytest.mark.parametrize(("name", "header", "right", "wrong"), DEFECTS)
def test_a_defect_in_a_header_is_found(tmp_path: Path, name: str, header: str, right: str, wrong: str) -> None:
    headers = tmp_path / "bpf"
    shutil.copytree(BPF, headers)
    text = (headers / header).read_text()
    assert right in text
    (headers / header).write_text(text.replace(right, wrong, 1))
    done = subprocess.run([build(name, tmp_path, headers), "100000"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "expected" in done.stderr
