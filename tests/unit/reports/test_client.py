# SPDX-License-Identifier: Apache-2.0
"""The load generator's side of a report: written, read again, shown, and held against the server's."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.measured.handshakes import Shake, handshakes_of

from ssllatency.errors import SsllatencyError
from ssllatency.model.client import ClientReport, ConnectionBounds, Figure
from ssllatency.model.handshakes import NO, YES, Ending, Label, Part
from ssllatency.model.snapshot import Losses, Snapshot
from ssllatency.reports.documents.document import from_document, from_json, to_document, to_json
from ssllatency.reports.rows.both_sides import checks
from ssllatency.reports.text.client import render

FULL = Shake({Part.PRIVATE_KEY: 600_000, Part.REST: 400_000, Part.WAIT_PEER: 1_000_000}, {Label.RESUMED: NO})
RESUMED = Shake({Part.REST: 500_000}, {Label.RESUMED: YES})
FAILED = Shake({Part.REST: 100_000}, ending=Ending.FAILURE, reason="no shared cipher")
GIVEN_UP = Shake({Part.REST: 100_000}, ending=Ending.ABANDONED)
CLIENT = ClientReport(
    tool="ab",
    version="2.3",
    command=("ab", "-n", "3", "https://127.0.0.1:8443/a b"),
    figures=(
        Figure("requests", 3, "count", "all that ended"),
        Figure(
            "elapsed", 0.657, "s", "from the first connect to the last response, with each and every one of the handshakes made"
        ),
        Figure("requests a second", 4.5, "1/s", "requests by the elapsed time"),
        Figure("bytes", 600, "bytes", "header and body"),
        Figure("connect, min", 0, "s", "TCP connect and TLS handshake"),
        Figure("connect, mean", 0.003, "s", "TCP connect and TLS handshake"),
        Figure("processing, mean", 0.001, "s", "request to response"),
    ),
    percentiles={"total": {50: 0.004, 99.9: 0.005}},
    facts={"protocol": "TLSv1.3", "server": "ngi\x1bnx"},
    caveats=("ab never resumes.",),
    connections=ConnectionBounds(3, 3, "one a request"),
    offers_sessions=False,
)


NO_LOSSES = Losses()


def snapshot(*shakes: Shake, client: ClientReport | None = CLIENT, losses: Losses = NO_LOSSES) -> Snapshot:
    made = handshakes_of(shakes)
    return Snapshot("web1", "6.1", "libbpf", "2030-01-31T12:00:00Z", 1.0, (), (), handshakes=made, losses=losses, client=client)


def test_the_document_is_read_without_loss() -> None:
    for client in (CLIENT, replace(CLIENT, connections=None, offers_sessions=None, percentiles={}), None):
        made = snapshot(FULL, client=client)
        assert from_json(to_json(made)) == made
        assert ("client" in to_document(made)) == (client is not None)


def test_the_document_has_the_checks() -> None:
    made = snapshot(FULL, FULL, FULL)
    client = json.loads(to_json(made))["client"]
    assert client["checks"] == list(checks(made))
    assert client["percentiles"] == {"total": {"50": 0.004, "99.9": 0.005}}


@pytest.mark.parametrize(
    ("path", "value", "word"),
    [
        (("figures", 0, "value"), "3", r"client\.figures\[0\]\.value must be a number"),
        (("figures", 0, "value"), -3, r"client\.figures\[0\]\.value must be a number"),
        (("percentiles", "total"), {"lots": 1}, r"client\.percentiles\.total\.lots must be named by a percentile"),
        (("percentiles", "total"), {"101": 1}, "named by a percentile"),
        (("connections", "least"), None, r"client\.connections\.least must be a whole number"),
        (("offers_sessions",), "no", r"client\.offers_sessions must be true or false"),
        (("tool",), None, r"client\.tool must be a string"),
    ],
)
def test_a_wrong_document_is_refused_by_the_field(path: tuple[str | int, ...], value: object, word: str) -> None:
    document = json.loads(to_json(snapshot(FULL)))
    inner = document["client"]
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(SsllatencyError, match=word):
        from_document(document)


TEXT = """\
Client: ab 2.3: ab -n 3 'https://127.0.0.1:8443/a b'
  protocol TLSv1.3, server ngi\\x1bnx

  FIGURE                 VALUE  INCLUDES
  requests                   3  all that ended
  elapsed               657 ms  from the first connect to the last response, with each and every one
                                of the handshakes made
  requests a second      4.5/s  requests by the elapsed time
  bytes              600 bytes  header and body

  TIME        MIN     MEAN  INCLUDES
  connect     0 s  3.00 ms  TCP connect and TLS handshake
  processing    -  1.00 ms  request to response

  PERCENTILES     50 %   99.9 %
  total        4.00 ms  5.00 ms

Note: ab never resumes.

web1,"""


def test_the_text() -> None:
    text = render(snapshot(FULL, FULL, FULL))
    assert text.startswith(TEXT)
    assert all(len(line) <= 100 for line in text.splitlines())
    server, _, both = text.partition("Both sides:\n")
    assert "3 handshakes in 1.00 s" in server
    assert " ".join(both.split()) == " ".join(f"==> {sentence}" for sentence in checks(snapshot(FULL, FULL, FULL)))


def test_one_side_alone() -> None:
    assert render(snapshot(FULL, client=None)).startswith("web1, kernel 6.1")
    only = Snapshot("web1", "6.1", "libbpf", "2030-01-31T12:00:00Z", 1.0, (), (), client=CLIENT)
    assert render(only).startswith("Client: ab 2.3")
    assert checks(only) == ()


def says(made: Snapshot, *parts: str) -> bool:
    """Whether one sentence holds all of these."""
    return any(all(part in sentence for part in parts) for sentence in checks(made))


def ranged(least: int, most: int | None) -> ClientReport:
    return replace(CLIENT, connections=ConnectionBounds(least, most, "reasons"))


def test_counts_that_agree() -> None:
    assert says(snapshot(FULL, FULL, FULL), "server's 3 successful handshakes are ab's 3 connections, one for one")
    assert says(snapshot(FULL, client=ranged(1, 1)), "server's 1 successful handshake is ab's 1 connection, one for one")
    assert says(snapshot(FULL, FULL, client=ranged(1, 3)), "agree with ab's connections, 1 to 3 (reasons)")
    assert says(snapshot(FULL, FULL, client=ranged(1, None)), "agree with ab's connections, 1 or more (reasons)")


def test_counts_do_not_agree_where_requests_failed() -> None:
    failed = replace(ranged(0, 20), figures=(Figure("failed", 10, "count", "no answer"),))
    made = snapshot(FULL, FULL, client=failed)
    assert says(made, "are within ab's connections, 0 to 20 (reasons), but 10 of its requests failed")
    assert not says(made, "agree")


def test_counts_that_differ() -> None:
    assert says(snapshot(FULL), "1 successful handshake is 2 fewer than ab's 3 connections", "another process serves that port")
    assert says(snapshot(FULL, FAILED), "2 fewer than", "another process serves that port")
    assert says(snapshot(FULL, FAILED, GIVEN_UP), "2 fewer than", ": 2 didn't succeed there, and in TLS 1.3 the client is done")
    assert not says(snapshot(FULL, FAILED, GIVEN_UP), "another process")
    assert says(snapshot(FULL, losses=Losses(map_full=2)), "2 fewer than", "2 were lost or not over")
    assert says(snapshot(*[FULL] * 5), "2 more than ab's 3 connections can be", "other clients")
    assert says(snapshot(FULL, client=replace(CLIENT, connections=None)), "How many connections ab made isn't known")


def test_failures_are_told_of() -> None:
    assert says(snapshot(FULL, FAILED), "1 handshake didn't succeed on the server")
    assert not says(snapshot(FULL), "didn't succeed")


def test_resumption() -> None:
    assert says(snapshot(FULL), "never offered a session: no gain can come from resumption")
    assert says(snapshot(FULL, RESUMED), "1 of 2 handshakes resumed a session (50 %).")
    own = replace(CLIENT, figures=(Figure("resumed (reused)", 1, "count", ""),), offers_sessions=True)
    assert says(snapshot(FULL, RESUMED, client=own), "resumed a session (50 %); ab itself counted 1.")
    none = replace(own, figures=(Figure("resumed", 0, "count", ""),))
    assert says(snapshot(FULL, client=none), "None resumed", "ab got none", "or the server didn't know the one it offered.")
    assert says(snapshot(FULL, client=replace(none, figures=())), "None resumed a session, though the client offers")
    assert says(snapshot(FULL, client=replace(ranged(1, 9), offers_sessions=None)), "was made once")
    assert says(snapshot(FULL, FULL, client=replace(ranged(1, 9), offers_sessions=None)), "None resumed a session.")


def test_times() -> None:
    assert says(snapshot(FULL), "A mean connect took 3.00 ms on the client, the mean handshake 2.00 ms", "other 1.00 ms (33 %)")
    short = replace(CLIENT, figures=(Figure("connect, mean", 0.001, "s", ""),))
    assert says(snapshot(FULL, client=short), "no more than the mean handshake's 2.00 ms")
    kept = replace(CLIENT, figures=(*CLIENT.figures, Figure("kept alive", 3, "count", "")))
    assert not says(snapshot(FULL, client=kept), "connect took")
    wrk = replace(CLIENT, tool="wrk", figures=(Figure("latency, mean", 0.001, "s", ""),))
    assert says(
        snapshot(FULL, client=wrk), "wrk's latency holds none of the server's handshake, which took 2.00 ms in the mean"
    )


def test_the_rate_of_s_time() -> None:
    figures = (Figure("connections per user second", 1190, "1/s", ""), Figure("connections a second", 200, "1/s", ""))
    made = snapshot(FULL, client=replace(CLIENT, tool="s_time", figures=figures))
    assert says(made, "1190 connections per user second are 200 a second by the clock")
    assert says(made, "A connection by the clock took 5.00 ms on the client, the mean handshake 2.00 ms", "3.00 ms (60 %)")


def test_no_handshake_at_all() -> None:
    assert says(snapshot(), "server's 0 successful handshakes are 3 fewer than ab's 3 connections")


def test_names_and_units_of_a_foreign_document_are_escaped() -> None:
    """The document may be anybody's: nothing of it moves the cursor."""
    odd = "\x1b[2J\N{RIGHT-TO-LEFT OVERRIDE}"
    figures = tuple(Figure(f"{odd}{name}", 1.0, unit, odd) for name, unit in (("", odd), (", mean", "s")))
    shown = render(snapshot(FULL, client=replace(CLIENT, figures=figures, percentiles={odd: {50: 0.1}})))
    assert shown.isascii()
    assert "\x1b" not in shown
    assert shown.count("\\x1b[2J") >= 5


def test_percentiles_keep_all_their_digits() -> None:
    client = replace(CLIENT, percentiles={"total": {99.99999: 0.2, 0.0000001: 0.1, 50: 0.15}})
    measured = snapshot(FULL, client=client)
    assert from_json(to_json(measured)).client == client
    assert list(json.loads(to_json(measured))["client"]["percentiles"]["total"]) == ["99.99999", "0.0000001", "50"]
