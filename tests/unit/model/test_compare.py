# SPDX-License-Identifier: Apache-2.0
"""Comparisons of synthetic recordings, of which it is known what changed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest
from tests.measured.handshakes import Shake
from tests.measured.recordings import calls_of, interval_of, recording_of, shakes_of
from tests.parameters import slow_except

from ssllatency.model.arithmetic.handshake_sums import total
from ssllatency.model.handshakes import PHASES, Ending, Part
from ssllatency.model.recording import Recording
from ssllatency.model.snapshot import Missing, Outcome
from ssllatency.model.statistics.compare import UNTOLD_WITHOUT, compare
from ssllatency.model.statistics.comparison import FUNCTION, WALL, Change, ComparedSubject, Comparison, Verdict
from ssllatency.model.statistics.resampling import Block, Quantity, Sample, draws
from ssllatency.stacks.openssl.handshake.callbacks import NAMES
from ssllatency.stacks.phases import Phase

TRIALS = 80
F = ComparedSubject(FUNCTION, "F", "success")
SIGN = ComparedSubject(FUNCTION, "rsa_ossl_private_encrypt", "success")
CHANGED = {Verdict.SLOWER, Verdict.FASTER, Verdict.MORE, Verdict.FEWER}


def changes(comparison: Comparison, subject: ComparedSubject = WALL) -> dict[Quantity, Change]:
    return next(dict(row.changes) for row in comparison.rows if row.subject == subject)


def uneasy(seed: int, intervals: int, each: int = 30, scale: float = 1.0) -> Recording:
    """Calls of F that from one interval to the next all are a little slower or faster, and more or fewer."""
    random, made = Random(seed), []
    for number in range(intervals):
        count, mean = round(each * random.lognormvariate(0, 0.1)), math.log(10**6 * scale) + random.gauss(0, 0.05)
        calls = calls_of("F", [round(random.lognormvariate(mean, 0.3)) for _ in range(count)])
        made.append(interval_of(number, [], [calls]))
    return Recording.of(made)


@pytest.mark.parametrize("intervals", [2, 3, 8])
@pytest.mark.slow
def test_no_change_is_rarely_called_one(intervals: int) -> None:
    """A probability below 5 % in about 5 % of the trials, and any verdict in about as many."""
    below: Counter[Quantity] = Counter()
    alarms = 0
    for trial in range(TRIALS):
        found = compare(uneasy(2 * trial, intervals), uneasy(2 * trial + 1, intervals))
        for quantity, change in changes(found, F).items():
            below[quantity] += change.probability is not None and change.probability < 0.05
        alarms += any(change.verdict in CHANGED for row in found.rows for change in row.changes.values())
    assert max(below.values()) <= 0.1 * TRIALS
    assert alarms <= 0.1 * TRIALS


@pytest.mark.slow
def test_a_mean_is_as_likely_noise_as_is_said() -> None:
    """That the test above passes must not be because nothing is ever thought a change."""
    found = [changes(compare(uneasy(seed, 8), uneasy(seed + 1000, 8)), F)[Quantity.MEAN] for seed in range(TRIALS)]
    below_half = sum((change.probability or 0) < 0.5 for change in found)
    assert 0.3 * TRIALS < below_half < 0.7 * TRIALS


@pytest.mark.slow
def test_the_interval_holds_the_true_ratio() -> None:
    held = Counter[bool]()
    for seed in range(TRIALS):
        change = changes(compare(uneasy(seed, 6), uneasy(seed + 1000, 6, scale=1.3)), F)[Quantity.MEAN]
        assert change.low
        assert change.high
        held[change.low < 1.3 < change.high] += 1
    assert held[True] >= 0.88 * TRIALS


@pytest.mark.parametrize(("scale", "verdict"), [(1.4, Verdict.SLOWER), (0.7, Verdict.FASTER), (1.0, Verdict.NOISE)])
def test_a_real_shift_is_found(scale: float, verdict: Verdict) -> None:
    found = changes(compare(uneasy(1, 10), uneasy(2, 10, scale=scale)), F)
    assert [found[quantity].verdict for quantity in (Quantity.MEAN, Quantity.P50, Quantity.P90)] == [verdict] * 3
    assert found[Quantity.RATE].verdict is Verdict.NOISE
    assert found[Quantity.MEAN].ratio == pytest.approx(scale, rel=0.1)


def test_rates() -> None:
    found = changes(compare(uneasy(1, 8, each=60), uneasy(2, 8, each=30)), F)
    assert found[Quantity.RATE].verdict is Verdict.FEWER
    assert changes(compare(uneasy(2, 8, each=30), uneasy(1, 8, each=60)), F)[Quantity.RATE].verdict is Verdict.MORE


def test_what_was_never_seen_before_is_more() -> None:
    random, shakes = Random(1), []
    for number in range(6):
        failed = [replace(one, ending=Ending.FAILURE, reason="no shared cipher") for one in shakes_of(random, 20)]
        shakes.append(interval_of(number, [*shakes_of(random, 40), *failed]))
    change = changes(compare(recording_of(1), Recording.of(shakes)), ComparedSubject("part", "wall", "failure"))
    assert (change[Quantity.RATE].verdict, change[Quantity.RATE].before, change[Quantity.RATE].ratio) == (Verdict.MORE, 0, None)
    assert change[Quantity.RATE].after == pytest.approx(20)
    assert change[Quantity.MEAN] == Change(None, change[Quantity.MEAN].after)


def counted(values: Sequence[Sequence[int]]) -> Recording:
    return Recording.of([interval_of(number, [], [calls_of("F", each)]) for number, each in enumerate(values)])


def of_f(before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> dict[Quantity, Change]:
    return changes(compare(counted(before), counted(after)), F)


def test_few_calls_tell_nothing() -> None:
    found = of_f([[1000] * 20] * 1, [[90000] * 29])
    assert {change.verdict for change in found.values()} == {Verdict.UNKNOWN}
    assert found[Quantity.MEAN].ratio == 90
    found = of_f([[1000] * 40] * 2, [[90000] * 40] * 2)
    assert found[Quantity.P50].verdict is Verdict.SLOWER
    assert (found[Quantity.P90].verdict, found[Quantity.P99].verdict) == (Verdict.UNKNOWN, Verdict.UNKNOWN)


def test_one_interval_each_is_judged_by_its_counts() -> None:
    random = Random(3)
    values = [[round(random.lognormvariate(13, 0.5)) for _ in range(2000)] for _ in range(3)]
    same, slower = of_f(values[:1], values[1:2]), of_f(values[:1], [[round(1.2 * value) for value in values[2]]])
    assert {change.verdict for change in same.values()} == {Verdict.NOISE}
    assert {slower[quantity].verdict for quantity in (Quantity.MEAN, Quantity.P50, Quantity.P90)} == {Verdict.SLOWER}


def test_spread_by_counts_is_the_laws() -> None:
    """Of n calls with a known deviation the mean's is that over the root of n; the rate's is Poisson's."""
    random, number = Random(4), 4000
    times = calls_of("F", [round(random.gauss(10**6, 10**5)) for _ in range(number)])
    sample = Sample([Block(1.0, times)], draws(1))
    mean, rate = sample.spread(Quantity.MEAN), sample.spread(Quantity.RATE)
    assert mean
    assert rate
    assert (mean.degrees, rate.degrees) == (math.inf, math.inf)
    assert math.sqrt(mean.variance) == pytest.approx(0.1 / math.sqrt(number), rel=0.1)
    assert math.sqrt(rate.variance) == pytest.approx(1 / math.sqrt(number), rel=0.01)


def test_neighbouring_buckets_are_no_change() -> None:
    """A percentile is known to half a bucket, however many calls agree on which."""
    for before, after in ((100_000, 104_000), (104_000, 100_000), (100_000, 100_000)):
        assert of_f([[before] * 500] * 4, [[after] * 500] * 4)[Quantity.P90].verdict is Verdict.NOISE
    assert of_f([[100_000] * 500] * 4, [[125_000] * 500] * 4)[Quantity.P90].verdict is Verdict.SLOWER


def test_the_answer_is_the_same_twice() -> None:
    before, after = recording_of(1), recording_of(2)
    assert compare(before, after) == compare(before, after)


def test_contributions_add_up_and_the_largest_is_named() -> None:
    before, after = recording_of(1), recording_of(2, key_ns=4_500_000)
    found = compare(before, after)
    groups = [total(each.total().handshakes, Ending.SUCCESS) for each in (before, after)]  # type: ignore[arg-type]
    means = [Fraction(group.parts[Part.WALL].total_ns, group.count) for group in groups if group]
    assert sum(one.change_ns for one in found.contributions) == means[1] - means[0]
    assert sum(one.before_ns for one in found.contributions) == means[0]
    assert found.largest
    assert found.largest.part is Part.PRIVATE_KEY
    back = compare(after, before)
    assert back.largest
    assert (back.largest.part, back.largest.change_ns) == (Part.PRIVATE_KEY, -found.largest.change_ns)


def test_nothing_is_named_where_nothing_changed() -> None:
    found = compare(recording_of(1), recording_of(2))
    assert found.handshake
    assert found.handshake.verdict is Verdict.NOISE
    assert found.contributions
    assert found.largest is None


def test_a_wait_may_be_the_largest() -> None:
    def slow(random: Random) -> list[Shake]:
        return [Shake({**one.times, Part.WAIT_PEER: 3 * one.times[Part.WAIT_PEER]}) for one in shakes_of(random, 40)]

    random = Random(9)
    found = compare(recording_of(1), Recording.of([interval_of(number, slow(random)) for number in range(6)]))
    assert found.largest
    assert found.largest.part is Part.WAIT_PEER


def queued(seed: int, early_ns: int) -> Recording:
    """Handshakes whose ClientHello lies in the server's queue for so long, or about that."""
    random = Random(seed)

    def late() -> list[Shake]:
        return [Shake({**one.times, Part.QUEUE_START: random.randint(early_ns, 2 * early_ns)}) for one in shakes_of(random, 40)]

    return Recording.of([interval_of(number, late()) for number in range(6)])


def test_a_queue_before_the_first_call_is_part_of_what_changed() -> None:
    found = compare(queued(1, 1_000_000), queued(2, 280_000_000))
    assert found.handshake
    assert found.handshake.verdict is Verdict.NOISE
    assert found.client_wait
    assert found.client_wait.verdict is Verdict.SLOWER
    assert found.largest
    assert found.largest.part is Part.QUEUE_START
    assert float(sum(one.after_ns for one in found.contributions)) == pytest.approx(found.client_wait.after)
    assert [row.subject.name for row, _ in found.worse(0.1)] == ["client_wait"]


def test_what_clients_waited_is_compared_only_where_both_sides_know_it() -> None:
    """Measurements of older versions have the parts, but not what they make together."""
    new = queued(1, 1_000_000)
    handshakes = new.intervals[0].handshakes
    assert handshakes
    parts = {part: times for part, times in handshakes.groups[0].parts.items() if part is not Part.CLIENT_WAIT}
    groups = (replace(handshakes.groups[0], parts=parts),)
    old = Recording.of([replace(new.intervals[0], handshakes=replace(handshakes, groups=groups))])
    for found in (compare(old, new), compare(new, old), compare(recording_of(1), recording_of(2))):
        assert found.client_wait is None
        assert "client_wait" not in {row.subject.name for row in found.rows}
        assert Part.QUEUE_START not in {one.part for one in found.contributions}


def test_only_what_is_worse_by_more_than_the_threshold() -> None:
    found = compare(recording_of(1), recording_of(2, key_ns=4_500_000))
    assert [(row.subject, quantity) for row, quantity in found.worse(0.1)] == [(WALL, Quantity.MEAN), (SIGN, Quantity.MEAN)]
    assert [row.subject for row, _ in found.worse(3)] == [SIGN]
    assert found.worse(10) == ()
    assert compare(recording_of(2, key_ns=4_500_000), recording_of(1)).worse(0) == ()


def test_slower_failures_are_not_worse() -> None:
    def failing(time_ns: int) -> Recording:
        series = [calls_of("F", [time_ns + number] * 50, Outcome.FAILURE) for number in range(4)]
        return Recording.of([interval_of(number, [], [one]) for number, one in enumerate(series)])

    found = compare(failing(1000), failing(9000))
    assert changes(found, ComparedSubject(FUNCTION, "F", "failure"))[Quantity.MEAN].verdict is Verdict.SLOWER
    assert found.worse(0.1) == ()


def test_what_was_not_measured_is_not_none() -> None:
    """A side without handshakes, without functions, or without this function has no rate, rather than one of 0."""
    both = recording_of(1)
    functions = Recording.of([replace(interval, handshakes=None) for interval in both.intervals])
    shakes = Recording.of([replace(interval, series=()) for interval in both.intervals])
    missing = (Missing(SIGN.name, "libcrypto.so.3", "no way out could be covered"),)
    untraced = Recording.of([interval_of(number, [], [calls_of("F", [5])]) for number in range(3)])
    untraced = Recording.of([replace(interval, missing=missing) for interval in untraced.intervals])
    for side, subject in ((functions, WALL), (shakes, SIGN), (untraced, SIGN)):
        for change in changes(compare(side, both), subject).values():
            assert (change.before, change.verdict) == (None, Verdict.UNKNOWN)


def _shaken(parts: Sequence[Part], off_cpu: bool = False, missing: str = "") -> Recording:
    """Handshakes that have these parts, measured with `off_cpu`, and with something missing."""
    made = []
    for number in range(6):
        shakes = [Shake(dict.fromkeys((Part.WAIT_OFFLOAD, *parts), 1000 + one)) for one in range(40)]
        base = interval_of(number, shakes)
        assert base.handshakes
        absent = (Missing(missing, "libssl.so.3", "a reason"),) if missing else ()
        made.append(replace(base, missing=absent, handshakes=replace(base.handshakes, off_cpu=off_cpu)))
    return Recording.of(made)


LACKING = {
    Part.ON_CPU: "",
    Part.OFF_CPU: "",
    Part.PRIVATE_KEY: Phase.PRIVATE_KEY,
    Part.KEY_EXCHANGE: Phase.KEY_EXCHANGE,
    Part.PEER_VERIFICATION: "phases",
    Part.SESSION_LOOKUP: "tls_decrypt_ticket",
    Part.CALLBACKS: "cert_cb",
    Part.COMPLETION: "offload",
}


@pytest.mark.parametrize("part", slow_except(LACKING, Part.PRIVATE_KEY, Part.COMPLETION))
def test_parts_that_one_side_did_not_measure_have_no_rate_there(part: Part) -> None:
    subject = ComparedSubject("part", str(part), "success")
    lacking, measured = _shaken([], missing=LACKING[part]), _shaken([part], off_cpu=True)
    none = _shaken([], off_cpu=True, missing="errors")
    for found in (changes(compare(lacking, measured), subject), changes(compare(measured, lacking), subject)):
        for change in found.values():
            assert None in (change.before, change.after)
            assert (change.probability, change.verdict) == (None, Verdict.UNKNOWN)
    rate = changes(compare(measured, none), subject)[Quantity.RATE]
    assert (rate.after, rate.verdict) == (0, Verdict.FEWER)


def test_what_a_handshake_plan_calls_missing_is_known_here() -> None:
    """The names are the planner's, which the model doesn't import."""
    assert set(NAMES) | {"phases", "offload", "tls_decrypt_ticket", "EVP_CIPHER_CTX_new", "lookup_sess_in_cache"} == set(
        UNTOLD_WITHOUT
    )
    assert {str(phase) for phase in Phase} <= {str(part) for part in PHASES}
    assert {phase for phase in Phase if phase not in UNTOLD_WITHOUT["phases"]} == set()


def test_hosts_and_runs_are_compared_as_they_are_added_up() -> None:
    one, other = recording_of(1), recording_of(2, host="web2")
    both = Recording((*one.runs, *other.runs))
    found = changes(compare(one, both))
    assert found[Quantity.RATE].ratio == pytest.approx(1, abs=0.1)  # of one host, whatever the number of them
    assert found[Quantity.MEAN].verdict is Verdict.NOISE


def test_many_runs_are_drawn_as_wholes() -> None:
    """Runs that differ more among themselves than within: that much is noise."""

    def runs(first: int, key_ns: int) -> Recording:
        scales = [0.7, 0.85, 1.0, 1.15, 1.3]
        recordings = [recording_of(first + n, 4, key_ns=round(key_ns * by)) for n, by in enumerate(scales)]
        return Recording(tuple(run for each in recordings for run in each.runs))

    mean = changes(compare(runs(1, 700_000), runs(50, 770_000)), SIGN)[Quantity.MEAN]
    assert mean.verdict is Verdict.NOISE
    within = changes(compare(recording_of(1, 20), recording_of(50, 20, key_ns=770_000)), SIGN)[Quantity.MEAN]
    assert within.verdict is Verdict.SLOWER


def test_a_phase_that_one_side_did_not_tell_apart_contributes_in_the_rest() -> None:
    lacking, measured = _shaken([], missing="private_key"), _shaken([Part.PRIVATE_KEY])
    for sides in ((lacking, measured), (measured, lacking)):
        found = {one.part: one for one in compare(*sides).contributions}
        assert Part.PRIVATE_KEY not in found
        rest, whole = found[Part.REST], compare(*sides).contributions
        assert rest.change_ns == sum(one.change_ns for one in whole)
    assert Part.PRIVATE_KEY in {one.part for one in compare(_shaken([]), measured).contributions}
