# SPDX-License-Identifier: Apache-2.0
"""Certificates that were served: their sums and differences, their words, their documents, and the metric."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from ssllatency.errors import SsllatencyError
from ssllatency.export.metrics.cap import Cap
from ssllatency.export.metrics.certificates import FAMILY, expiries
from ssllatency.export.metrics.collect import of_host
from ssllatency.export.metrics.ledger import Known
from ssllatency.export.metrics.points import Point, labels
from ssllatency.model.arithmetic.snapshots import difference, merge
from ssllatency.model.certificates import CertificateFacts, Issuer, ServedCertificate, since, summed
from ssllatency.model.handshakes import Handshakes, Label
from ssllatency.model.process_label import ProcessLabel
from ssllatency.model.recording import Recording
from ssllatency.model.snapshot import Snapshot
from ssllatency.reports.documents.document import from_json, to_json
from ssllatency.reports.rows.handshakes.certificates import certificates
from ssllatency.reports.text.handshakes.report import render

DAY_S = 86_400
NOW_S = 1_800_000_000.0
A = CertificateFacts("a.example", 2, 0, int(NOW_S) + 12 * DAY_S, "R 1", Issuer.OTHER, "RSA-2048", "01", 1391)
B = replace(
    A,
    name="b.example",
    names=1,
    not_after_s=A.not_after_s + 3600,
    issued_by=Issuer.ITSELF,
    key="ECDSA P-256",
    serial="02",
    size=468,
)
WORKER, OTHER = ProcessLabel(17, "nginx"), ProcessLabel(18, "nginx")


def served(certificate: CertificateFacts | None = A, count: int = 3, **changes: object) -> ServedCertificate:
    return replace(ServedCertificate(443, None, certificate, 1, count, 0, NOW_S), **changes)  # type: ignore[arg-type]


def snapshot_of(handshakes: Handshakes) -> Snapshot:
    return Snapshot("web1", "6.1.0", "libbpf", "2030-01-31T12:00:00Z", 10.0, (), (), handshakes=handshakes)


def measured(*ones: ServedCertificate, by: tuple[Label, ...] = (), untold: int = 0, pending: int = 0) -> Snapshot:
    handshakes = Handshakes((), by=by, certificates=tuple(ones), certificates_untold=untold, certificates_pending=pending)
    return snapshot_of(handshakes)


def told(snapshot: Snapshot) -> tuple[ServedCertificate, ...] | None:
    assert snapshot.handshakes
    return snapshot.handshakes.certificates


def test_alike_ones_add_up_and_the_first_to_expire_comes_first() -> None:
    later = replace(B, not_after_s=A.not_after_s + 1)
    ones = served(later), served(None), served(count=2, last_s=NOW_S + 9, unsuccessful=1), served()
    assert summed(ones) == (served(count=5, last_s=NOW_S + 9, unsuccessful=1), served(later), served(None))
    assert summed([served(), served(port=8443)]) == (served(), served(port=8443))


def test_what_was_served_in_between() -> None:
    assert since([served(count=5, unsuccessful=2), served(B)], [served(unsuccessful=1)]) == (
        *(served(count=2, unsuccessful=1), served(B)),
    )
    assert since([served()], [served()]) == ()
    assert since(None, [served()]) is None
    assert since([served()], None) == (served(),)


def test_another_chain_is_sent_with_the_same_certificate() -> None:
    """As of a server that was given another chain, or of one where it is known only sometimes."""
    later = served(count=5, chain=2, last_s=NOW_S + 9)
    assert since([later], [served()]) == (served(count=2, chain=2, last_s=NOW_S + 9),)
    assert summed([later, served()]) == summed([served(), later]) == (served(count=8, chain=2, last_s=NOW_S + 9),)


def test_snapshots_of_several_hosts_and_of_one_run() -> None:
    by = (Label.PROCESS,)
    one = measured(served(process=WORKER), served(process=OTHER), by=by, untold=1)
    assert told(merge(one, one)) == (served(count=6, process=WORKER), served(count=6, process=OTHER))
    assert told(merge(one, measured(served(B)))) == (served(count=6), served(B)), "not all tell processes apart"
    assert told(difference(merge(one, one), one)) == told(one)
    waiting = measured(pending=2)
    assert (difference(waiting, waiting).handshakes, merge(waiting, waiting).handshakes) == (
        *(waiting.handshakes, measured(pending=4).handshakes),
    ), "as those in flight: what is so at the end"
    ended = Recording.of([waiting, measured(served(count=2))]).total().handshakes
    assert ended
    assert ended.certificates_pending == 0
    unknown = snapshot_of(Handshakes(()))
    assert told(merge(one, unknown)) is not None
    assert told(merge(unknown, unknown)) is None


def test_documents_say_it_and_are_read_again() -> None:
    snapshot = measured(
        served(process=WORKER, server_name="none", chain_bytes=5000),
        served(None, port=0, chain=None),
        by=(Label.PROCESS,),
        untold=4,
    )
    document = json.loads(to_json(snapshot))["handshakes"]
    assert document["certificates"][1] == {"count": 3, "unsuccessful": 0, "last_s": NOW_S}
    assert (document["certificates"][0]["process"], document["certificates"][0]["server_name"]) == ("nginx(17)", "none")
    assert document["certificates"][0]["chain_bytes"] == 5000
    assert "certificates_pending" not in document
    assert from_json(to_json(snapshot)) == snapshot
    waiting = measured(pending=3)
    assert from_json(to_json(waiting)) == waiting


@pytest.mark.parametrize(
    ("field", "value"),
    [("unsuccessful", 4), ("port", 65536), ("chain", -1), ("count", 1.5), ("certificate", {}), ("last_s", -1)],
)
def test_documents_that_can_not_be_are_refused(field: str, value: object) -> None:
    document = json.loads(to_json(measured(served())))
    document["handshakes"]["certificates"][0][field] = value
    with pytest.raises(SsllatencyError, match="certificates"):
        from_json(json.dumps(document))


def test_text_and_marks() -> None:
    text = render(measured(served(), served(B, server_name="none", unsuccessful=2, chain=None, port=0)))
    assert (
        "Certificate of a.example and 1 more (port 443): expires in 12 days (2027-01-27), RSA-2048, issued by R 1,"
        " 1,391 bytes, sent with 1 more; 3 full handshakes."
        " Certificate of b.example (asked for no name): expires in 12 days (2027-01-27), ECDSA P-256, issued by itself,"
        " 468 bytes; 3 full handshakes, 2 of them unsuccessful."
    ) in " ".join(text.split())
    (soon,) = certificates(measured(served()).handshakes or Handshakes(()))
    assert (soon.is_soon, soon.is_bad) == (True, False)


@pytest.mark.parametrize(
    ("changes", "says", "bad"),
    [
        ({"not_after_s": int(NOW_S) - 3 * DAY_S}, "expired 3 days before (2027-01-12)", True),
        ({"not_before_s": int(NOW_S) + DAY_S}, "not valid before 2027-01-16", True),
        ({"not_after_s": int(NOW_S) + 3600 * 5}, "expires in 5 hours (2027-01-15)", False),
        ({"issued_by": Issuer.SAME}, "issued by R 1, its own organisation", False),
        ({"issuer": ""}, "issued by another", False),
        ({"key": ""}, "key of another kind", False),
        ({}, "sent with 1 more", False),
    ],
)
def test_words(changes: dict[str, object], says: str, bad: bool) -> None:
    (row,) = certificates(Handshakes((), certificates=(served(replace(A, **changes)),)))  # type: ignore[arg-type]
    assert says in row.facts
    assert row.is_bad == bad


def test_the_bytes_of_a_chain_are_said_where_they_are_known() -> None:
    (row,) = certificates(Handshakes((), certificates=(served(chain_bytes=5_000),)))
    assert "sent with 1 more, 5,000 bytes in all" in row.facts


def test_many_are_few_lines_and_the_untold_are_said() -> None:
    ones = [served(replace(A, serial=f"{number:02}", not_after_s=A.not_after_s + number)) for number in range(9)]
    text = render(measured(*ones, served(None), untold=1, pending=1))
    assert text.count("Certificate of a.example") == 4
    assert "6 more certificates, none of which is known to expire earlier." in text
    assert "Certificates: those of 2 full handshakes aren't listed." in text
    assert "Certificate" not in render(measured())


def test_an_interval_names_those_that_the_one_before_did_not() -> None:
    before, after = measured(served()), measured(served(count=9, chain=0), served(B))
    text = render(after, before=before)
    assert (text.count("Certificate of a.example"), text.count("Certificate of b.example")) == (0, 1)


def known(pid: int) -> Known | None:
    return Known(STARTS.get(pid, 1), labels({"service": "web"})) if pid in (17, 18) else None


def dates(*ones: ServedCertificate) -> dict[tuple[str, str, str], float]:
    """The metric's values, by port, name and kind of key."""
    return {
        (dict(own).get("server.port", ""), dict(own)["tls.server.subject"], dict(own)["key"]): value
        for _, own, value in expiries(ones, known, 0.0)
    }


RENEWED = replace(A, not_after_s=A.not_after_s + 90 * DAY_S, serial="03", key="RSA-3072")
STARTS: dict[int, int] = {}  # of processes that didn't start with the machine, in ticks since then
A_RSA = ("443", "a.example", "RSA")


def test_the_metric_is_of_what_was_served_last() -> None:
    ones = [
        served(process=WORKER),
        served(RENEWED, process=WORKER, last_s=NOW_S + 1),
        served(replace(A, key="ECDSA P-256"), process=WORKER),
        served(B, process=WORKER, port=0),
        served(None, process=WORKER),
        served(replace(B, name="gone.example"), process=ProcessLabel(19, "nginx")),
        served(B),
    ]
    assert dates(*ones) == {
        A_RSA: RENEWED.not_after_s,
        ("443", "a.example", "ECDSA"): A.not_after_s,
        ("", "b.example", "ECDSA"): B.not_after_s,
    }


@pytest.mark.parametrize(
    ("key", "kind"), [("RSA-4096", "RSA"), ("ECDSA P-384", "ECDSA"), ("ECDSA", "ECDSA"), ("ML-DSA-44", "ML-DSA-44"), ("", "")]
)
def test_kinds_of_keys(key: str, kind: str) -> None:
    (point,) = expiries([served(replace(A, key=key), process=WORKER)], known, 0.0)
    assert dict(point[1]).get("key", "") == kind


def test_of_several_processes_the_first_to_expire_counts() -> None:
    """Else it would change with each handshake where one worker has been reloaded and another hasn't."""
    old, new = served(process=WORKER), served(RENEWED, process=OTHER)
    for old_s, new_s in ((0, 9), (9, 0), (0, 3000)):
        ones = replace(old, last_s=NOW_S + old_s), replace(new, last_s=NOW_S + new_s)
        assert dates(*ones) == {A_RSA: A.not_after_s}
    assert dates(old, replace(new, last_s=NOW_S + 3700)) == {A_RSA: RENEWED.not_after_s}, "it accepts no more connections"


def test_what_was_replaced_goes_in_an_hour_whatever_replaced_it() -> None:
    for other in (replace(RENEWED, key="ECDSA P-256"), replace(RENEWED, name="c.example")):
        new = ("443", other.name, other.key.split()[0].partition("-")[0])
        ones = served(process=WORKER), served(other, process=WORKER, last_s=NOW_S + 3500)
        assert dates(*ones) == {A_RSA: A.not_after_s, new: other.not_after_s}
        assert dates(*ones, served(other, process=WORKER, last_s=NOW_S + 3700)) == {new: other.not_after_s}
    elsewhere = served(RENEWED, process=WORKER, port=8443, last_s=NOW_S + 9999)
    assert A_RSA in dates(served(process=WORKER), elsewhere), "nothing was served at that port since"


def test_what_an_earlier_process_of_the_same_pid_served_is_not_the_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STARTS, WORKER.pid, int(NOW_S * os.sysconf("SC_CLK_TCK")))
    before, after = served(process=WORKER, last_s=NOW_S - 60), served(B, process=WORKER, last_s=NOW_S + 0.2)
    assert dates(before, after) == {("443", "b.example", "ECDSA"): B.not_after_s}


def test_one_that_can_not_be_read_may_have_replaced_it() -> None:
    old = served(process=WORKER, server_name="a.example")
    unread = served(None, process=WORKER, server_name="a.example", last_s=NOW_S + 310)
    assert dates(old, unread) == {}
    assert A_RSA in dates(old, replace(unread, last_s=NOW_S + 9)), "both may be served"
    assert A_RSA in dates(old, replace(unread, process=OTHER))
    assert A_RSA in dates(old, replace(unread, server_name="c.example"))


def test_a_busy_one_that_can_not_be_read_hides_no_other_names() -> None:
    """All are served to whoever asks for whatever, as far as that is known."""
    unread = served(None, process=WORKER, last_s=NOW_S + 3500)
    assert A_RSA in dates(served(process=WORKER), unread)
    assert dates(served(process=WORKER), replace(unread, last_s=NOW_S + 3700)) == {}


def test_those_that_can_not_be_read_are_a_loss() -> None:
    """Not those of which an answer may still come: the counter would have to fall."""
    found = [
        value
        for family, own, value in of_host(measured(served(), served(None, count=4), untold=2, pending=8))
        if family == "ssllatency.losses" and dict(own)["kind"] == "certificates_untold"
    ]
    assert found == [6]


def test_a_service_with_many_has_the_first_to_expire() -> None:
    """Whoever makes up names has no more series than that."""
    ones = [
        served(replace(A, name=f"{number}.example", not_after_s=A.not_after_s - number), process=WORKER) for number in range(99)
    ]
    assert sorted(dates(*ones).values()) == [A.not_after_s - number for number in range(98, 98 - 64, -1)]


def test_dates_are_not_added_up_where_there_is_no_room() -> None:
    cap = Cap(1, 0.0)
    points = [Point(FAMILY, labels({"tls.server.subject": name}), 1e9, 0.0) for name in ("a", "b", "c")]
    placed, _ = cap.place(points)
    assert placed == points[:1]
    assert cap.dropped == 2
