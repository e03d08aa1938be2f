# SPDX-License-Identifier: Apache-2.0
"""The cells of a matrix, why others are left out, and the order of the runs."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.matrices import SERVER, matrix, plan

from ssllatency.load.matrix.plan import Factor, MatrixRun, order

OPENSSL = 'seconds = 1\nconnections = 9\n[servers.plain]\nkind = "openssl"\n'
RUNNING = 'seconds = 1\nconnections = 9\n[servers.live]\nkind = "running"\naddress = "web:443"\nkey = "Ed25519"\n'
TWELVE = """
key = ["RSA-2048", "ECDSA-P-256", "Ed25519"]
version = ["TLSv1.2", "TLSv1.3"]
resumption = ["new", "reuse"]
"""


def test_every_combination_once() -> None:
    found = plan(TWELVE)
    assert len({cell.key for cell in found.cells}) == len(found.cells) == 12
    assert not found.dropped
    assert found.cells[0][Factor.KEY] == "RSA-2048"


def test_levels_that_make_no_difference_are_one() -> None:
    found = plan('client_certificate = ["none", "need"]\nclient_key = ["RSA-2048", "Ed25519"]')
    assert [cell[Factor.CLIENT_KEY] for cell in found.cells] == ["-", "RSA-2048", "Ed25519"]
    found = plan('version = "TLSv1.2"\ncipher = ["AES128-SHA", "ECDHE-RSA-AES128-SHA"]\ngroup = ["X25519", "P-256"]')
    assert [cell[Factor.GROUP] for cell in found.cells] == ["-", "X25519", "P-256"]


def test_what_the_file_excludes() -> None:
    rule = '[[exclude]]\nkey = "Ed25519"\nversion = ["TLSv1.2"]\n'
    found = plan(f"{TWELVE}{rule}")
    assert len(found.cells) == 10
    assert found.dropped == {"excluded by the file": 2}


@pytest.mark.parametrize(
    ("factors", "head", "reason"),
    [
        ('version = "TLSv1.2"\ncipher = "TLS_AES_128_GCM_SHA256"', SERVER, "is a suite of TLS 1.3 only"),
        ('cipher = "ECDHE-RSA-AES128-SHA"', SERVER, "isn't a suite of TLS 1.3"),
        ('version = "default"\ncipher = "ECDHE-RSA-AES128-SHA"', SERVER, "needs a version to be named"),
        ('version = "TLSv1.2"\nkey = "Ed25519"\ncipher = "ECDHE-RSA-AES128-SHA"', SERVER, "needs an RSA key"),
        ('version = "TLSv1.2"\ncipher = "ECDHE-ECDSA-AES128-SHA"', SERVER, "needs an ECDSA or Ed25519 key"),
        ('client_certificate = "need"\nclient_key = "none"', SERVER, "a client without a key can't give"),
        ('tool = "h2load"\nclient_certificate = "want"', SERVER, "h2load has no client certificate"),
        ('tool = "h2load"\npage = "none"', SERVER, "h2load always fetches a page"),
        ('resumption = "reuse"\npage = "none"', SERVER, "the session comes after the handshake"),
        ('page = "/"', OPENSSL, "serves no page by calls that can be traced"),
        ('tool = "h2load"\npage = "/"', OPENSSL, "serves one connection at a time"),
        ("", RUNNING, "live is a running server whose key is Ed25519"),
        ('key = "Ed25519"\nclient_certificate = "need"', RUNNING, "live is a running server whose client_certificate is none"),
        ('key = "Ed25519"\ntool = "h2load"', RUNNING, "h2load can't choose the version of live"),
        ('key = "Ed25519"\ntool = "h2load"\nversion = "default"', RUNNING, "its sessions can't be turned off"),
    ],
)
def test_what_cannot_be_run(factors: str, head: str, reason: str) -> None:
    found = plan(factors, head)
    assert found.cells == ()
    assert [reason in told for told in found.dropped] == [True]


@pytest.mark.parametrize(
    ("factors", "head"),
    [
        ('version = "TLSv1.2"\nkey = "Ed25519"\ncipher = "ECDHE-ECDSA-AES128-GCM-SHA256"', SERVER),
        ('tool = "h2load"\nclient_certificate = "want"\nclient_key = "none"', SERVER),
        ('resumption = "reuse"\npage = "none"\nversion = "TLSv1.2"', SERVER),
        ("", OPENSSL),
        ('key = "Ed25519"', RUNNING),
        ('key = "Ed25519"\ntool = "h2load"\nversion = "default"\nresumption = "reuse"', RUNNING),
    ],
)
def test_what_can_be_run(factors: str, head: str) -> None:
    assert len(plan(factors, head).cells) == 1


def test_rounds_hold_each_cell_once() -> None:
    whole, cells = matrix(TWELVE), plan(TWELVE).cells
    runs = order(cells, whole)
    assert [run.repeat for run in runs] == [None] * 12 + [repeat for repeat in range(1, 6) for _ in range(12)]
    assert Counter(runs) == {MatrixRun(cell, repeat): 1 for cell in cells for repeat in (None, *range(1, 6))}


def test_rounds_are_shuffled_anew_and_the_same_twice() -> None:
    whole, cells = matrix(TWELVE), plan(TWELVE).cells
    runs = order(cells, whole)
    rounds = {tuple(run.cell.key for run in runs[start : start + 12]) for start in range(0, len(runs), 12)}
    assert len(rounds) == 6
    assert order(cells, whole) == runs
    assert order(cells, matrix(TWELVE, f"seed = 2\n{SERVER}")) != runs


@pytest.mark.parametrize("made", range(12, 73))
def test_what_is_left_goes_on_in_the_same_order(made: int) -> None:
    whole, cells = matrix(TWELVE), plan(TWELVE).cells
    runs = order(cells, whole)
    done = frozenset((run.cell.key, run.repeat) for run in runs[:made] if run.repeat)
    left = order(cells, whole, done)
    cold = [run for run in left if run.repeat is None]
    assert left[len(cold) :] == runs[made:]
    assert {run.cell for run in cold} == {run.cell for run in runs[made:]}


def test_the_identity_is_what_the_numbers_depend_on() -> None:
    one = matrix(TWELVE)
    assert one.identity == matrix(f"# a comment\n{TWELVE}", f"repeats = 50\nwarm_up = 3\n{SERVER}").identity
    others = (matrix(), matrix(TWELVE, f"seed = 2\n{SERVER}"), matrix(TWELVE, f"{SERVER}workers = 2\n"))
    assert len({one.identity, *(other.identity for other in others)}) == 4
