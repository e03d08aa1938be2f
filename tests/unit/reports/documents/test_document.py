# SPDX-License-Identifier: Apache-2.0
"""The JSON document: its exact shape, the way back without loss, and a clear refusal of what it must not be."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.reports.documents.changes import JSON, assert_refused, assert_rendered_or_refused, changed, paths_of
from tests.unit.reports.report_samples import LIBCRYPTO, LIBSSL, busy, idle, processes, series_of, snapshot_of, spread, troubled

from ssllatency.errors import SsllatencyError
from ssllatency.model.arithmetic.snapshots import by_function
from ssllatency.model.snapshot import Losses, Missing, Outcome, Series, Snapshot, Target, TracedLibrary
from ssllatency.model.timed import quantile_ns
from ssllatency.reports.documents.document import from_document, from_json, to_document, to_json
from ssllatency.reports.text.trace import render

SAMPLES = (busy, processes, troubled, idle)

names = st.text(max_size=8)
whole = st.integers(0, 2**64)
libraries = st.builds(TracedLibrary, names, names, names)


@st.composite
def series(draw: st.DrawFn, key: tuple[str, Outcome, int | None]) -> Series:
    values = draw(st.lists(st.integers(0, 2**38), min_size=1, max_size=8))
    one = series_of(*key[:2], values, key[2], draw(st.dictionaries(names, whole, max_size=3)))
    return replace(one, min_ns=None, max_ns=None) if draw(st.booleans()) else one


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    keys = draw(st.sets(st.tuples(names, st.sampled_from(Outcome), st.none() | st.integers(0, 2**22)), max_size=5))
    return Snapshot(
        draw(names),
        draw(names),
        draw(names),
        "2030-01-31T12:00:00.123456+05:30",
        draw(st.floats(0, 1e9)),
        tuple(draw(st.lists(st.builds(Target, whole, names, st.lists(libraries, max_size=2).map(tuple)), max_size=3))),
        tuple(draw(series(key)) for key in sorted(keys, key=str)),
        tuple(draw(st.lists(st.builds(Missing, names, names, names), max_size=3))),
        Losses(*(draw(whole) for _ in range(5))),
        draw(whole),
        tuple(draw(st.lists(names, max_size=2))),
    )


@given(snapshots())
def test_round_trip_is_exact(snapshot: Snapshot) -> None:
    assert from_json(to_json(snapshot, by_process=True)) == snapshot
    assert from_json(to_json(snapshot)) == by_function(snapshot)


@given(snapshots())
def test_document_survives_reading(snapshot: Snapshot) -> None:
    document = to_document(snapshot, by_process=True)
    assert to_document(from_document(document), by_process=True) == document


@pytest.mark.parametrize("sample", SAMPLES)
def test_kept_measurement_renders_the_same(sample: Callable[[], Snapshot]) -> None:
    kept = from_json(to_json(sample(), by_process=True))
    assert render(kept, by_process=True) == render(sample(), by_process=True)
    assert render(kept) == render(sample())


def test_whole_document() -> None:
    snapshot = snapshot_of(
        series_of("SSL_read", Outcome.RETRY, [1_000, 3_000], 1240, {"WANT_READ": 2}),
        targets=(Target(1240, "nginx", (LIBSSL,)),),
        missing=(Missing("RSA_sign", LIBCRYPTO.path, "not in this library"),),
        losses=Losses(map_full=1),
        in_flight=2,
        notes=("A note.",),
    )
    assert to_document(snapshot, by_process=True) == {
        "schema": "ssllatency/1",
        "host": "web1",
        "kernel": "6.1.0-18-amd64",
        "engine": "libbpf",
        "started": "2030-01-31T12:00:00Z",
        "duration_s": 10.0,
        "targets": [
            {
                "pid": 1240,
                "comm": "nginx",
                "libraries": [{"path": LIBSSL.path, "build_id": "5a6f", "version": "", "deleted": False}],
            }
        ],
        "functions": [
            {
                "function": "SSL_read",
                "outcome": "retry",
                "pid": 1240,
                "count": 2,
                "total_ns": 4_000,
                "min_ns": 1_000,
                "max_ns": 3_000,
                "mean_ns": 2_000.0,
                "p50_ns": 1_000,
                "p90_ns": 3_000,
                "p99_ns": 3_000,
                "p999_ns": 3_000,
                "reasons": {"WANT_READ": 2},
                # 1000 ns = base^159.4, 3000 ns = base^184.8.
                "exponential": {
                    "scale": 4,
                    "grid": "s",
                    "offset": -319,
                    "counts": [1, *[0] * 24, 1],
                    "underflow": 0,
                    "overflow": 0,
                },
                "linear": {"unit": "us", "min": 0, "max": 1000, "step": 200, "counts": [0, 2, 0, 0, 0, 0, 0]},
            }
        ],
        "missing": [{"function": "RSA_sign", "library": LIBCRYPTO.path, "reason": "not in this library"}],
        "losses": {
            "unmatched_entries": 0,
            "unmatched_exits": 0,
            "map_full": 1,
            "events_dropped": 0,
            "folded_processes": 0,
            "late_processes": 0,
            "left": 0,
        },
        "in_flight": 2,
        "notes": ["A note."],
    }


def functions_of(snapshot: Snapshot, **options: bool) -> list[dict[str, Any]]:
    functions = to_document(snapshot, **options)["functions"]
    assert isinstance(functions, list)
    return functions


def test_processes_are_added_up_unless_asked_for() -> None:
    added = functions_of(processes())
    assert [(one["function"], one["outcome"], one["pid"], one["count"]) for one in added] == [
        ("SSL_read", "success", None, 55),
        ("SSL_write", "success", None, 1),
        ("SSL_read", "retry", None, 1),
    ]
    assert not any("other" in one for one in added)


def test_folded_processes_are_marked() -> None:
    by_pid = functions_of(processes(), by_process=True)
    assert [(one["pid"], one.get("other")) for one in by_pid] == [
        (1240, None),
        (1241, None),
        (1241, None),
        (4711, None),
        (None, True),
    ]


def test_what_is_not_known_is_null() -> None:
    (quick,) = functions_of(snapshot_of(replace(series_of("a", Outcome.SUCCESS, [5] * 3), min_ns=None, max_ns=None)))
    assert [quick[name] for name in ("min_ns", "max_ns", "p50_ns", "p999_ns")] == [None] * 4
    assert quick["mean_ns"] == 5
    empty = replace(series_of("a", Outcome.SUCCESS, [5]), total_ns=0, min_ns=None, max_ns=None)
    empty = replace(empty, exponential=empty.exponential - empty.exponential, linear=empty.linear - empty.linear)
    assert functions_of(snapshot_of(empty))[0]["mean_ns"] is None


@given(st.lists(st.integers(60, 64 * 10**9), min_size=1, max_size=100))
def test_written_percentiles_are_within_their_error(values: list[int]) -> None:
    (one,) = functions_of(snapshot_of(replace(series_of("a", Outcome.SUCCESS, values), min_ns=None, max_ns=None)))
    true = sorted(values)[-(-len(values) // 2) - 1]
    assert abs(one["p50_ns"] - true) <= 0.022 * true


def test_percentiles_agree_with_the_series() -> None:
    snapshot = snapshot_of(series_of("a", Outcome.SUCCESS, spread(1000, 10_000, 900_000)))
    (one,) = functions_of(snapshot)
    for name, q in (("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99), ("p999_ns", 0.999)):
        assert one[name] == pytest.approx(quantile_ns(snapshot.series[0], q), abs=0.005)


def test_json_is_one_line_unless_indented() -> None:
    assert "\n" not in to_json(busy())
    assert json.loads(to_json(busy(), indent=2)) == json.loads(to_json(busy()))
    assert "\n" in to_json(busy(), indent=2)


def test_json_never_holds_a_number_that_json_has_not() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        to_json(replace(idle(), duration_s=math.nan))


def test_unknown_fields_are_ignored_and_later_ones_may_be_left_out() -> None:
    document = to_document(busy(), by_process=True)
    document["weather"] = {"anything": [1]}
    del document["in_flight"], document["notes"]
    assert from_document(document) == busy()


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (("schema",), "ssllatency/2", 'schema must be "ssllatency/1"'),
        (("schema",), ..., "schema must be there"),
        (("host",), 7, "host must be a string"),
        (("started",), "yesterday", "started must be a time such as"),
        (("started",), "2030-02-31T12:00:00Z", "started must be a time such as"),
        (("started",), "2030-01-31T12:00:00", "started must be a time such as"),
        (("duration_s",), -1, "duration_s must be a number of 0 or more"),
        (("duration_s",), math.nan, "duration_s must be a number of 0 or more"),
        (("duration_s",), math.inf, "duration_s must be a number of 0 or more"),
        (("duration_s",), True, "duration_s must be a number of 0 or more"),
        (("targets",), {}, "targets must be a list"),
        (("targets", 0), "nginx", r"targets\[0\] must be an object"),
        (("targets", 1, "libraries", 0, "path"), ..., r"targets\[1\].libraries\[0\].path must be there"),
        (("functions", 2, "outcome"), "lost", r"functions\[2\].outcome must be one of success, failure, retry"),
        (("functions", 2, "outcome"), [], r"functions\[2\].outcome must be one of"),
        (("functions", 0, "pid"), 1.5, r"functions\[0\].pid must be a whole number"),
        (("functions", 0, "pid"), 0, r"functions\[0\].pid must be null or a number of 1 or more"),
        (("functions", 1, "pid"), 1240, r"functions\[1\] must be the only one"),
        (("functions", 4, "other"), "yes", r"functions\[4\].other must be true or false"),
        (("functions", 0, "count"), 11, r"functions\[0\].count must be the sum of its exponential histogram, 10"),
        (("functions", 0, "total_ns"), True, r"functions\[0\].total_ns must be a whole number"),
        (("functions", 0, "total_ns"), 2**96, r"functions\[0\].total_ns must be a whole number"),
        (("functions", 0, "min_ns"), -5, r"functions\[0\].min_ns must be a whole number"),
        (("functions", 3, "reasons", "WANT_READ"), -1, r"functions\[3\].reasons.WANT_READ must be a whole number"),
        (("functions", 0, "exponential", "scale"), 5, r"functions\[0\].exponential.scale must be 4"),
        (("functions", 0, "exponential", "grid"), "ms", r'functions\[0\].exponential.grid must be "s" or "ns"'),
        (("functions", 0, "exponential", "offset"), 1.5, r"functions\[0\].exponential.offset must be a whole number"),
        (("functions", 0, "exponential", "offset"), 90, r"exponential must be an exponential histogram \(the buckets"),
        (("functions", 0, "exponential", "counts", 0), None, r"exponential.counts\[0\] must be a whole number"),
        (("functions", 0, "linear", "unit"), "ms", 'linear.unit must be "us"'),
        (("functions", 0, "linear", "step"), 0, r"linear must be a linear histogram \(.*step of at least 1\)"),
        (("functions", 0, "linear", "counts"), [1], r"linear must be a linear histogram \(0 to 1000 by 200 doesn't make"),
        (("missing",), None, "missing must be a list"),
        (("losses", "map_full"), ..., "losses.map_full must be there"),
        (("in_flight",), None, "in_flight must be a whole number"),
        (("notes",), ["fine", 3], r"notes\[1\] must be a string"),
    ],
)
def test_refusal_names_the_field(path: tuple[str | int, ...], value: object, sentence: str) -> None:
    assert_refused(changed(to_document(processes(), by_process=True), path, value), sentence)


@pytest.mark.parametrize("document", [[], "text", None, 3])
def test_refusal_of_another_kind_of_document(document: Any) -> None:
    with pytest.raises(SsllatencyError, match="the document must be an object"):
        from_document(document)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"schema": 1} {}', "9" * 5000, to_json(idle())[:-2]])
def test_refusal_of_what_is_not_json(text: str) -> None:
    with pytest.raises(SsllatencyError, match="not one JSON document, or it was cut short"):
        from_json(text)


@given(st.sampled_from(paths_of(to_document(processes(), by_process=True))), JSON)
def test_any_other_value_is_read_or_refused_in_one_sentence(path: tuple[str | int, ...], value: object) -> None:
    document = changed(to_document(processes(), by_process=True), path, value)
    assert_rendered_or_refused(document, partial(render, by_process=True))


def test_a_document_of_an_earlier_version_has_no_late_processes() -> None:
    document: dict[str, Any] = dict(to_document(busy()))
    del document["losses"]["late_processes"]
    assert from_document(document).losses == busy().losses
