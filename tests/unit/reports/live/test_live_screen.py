# SPDX-License-Identifier: Apache-2.0
"""What a live view shows: every line fits, numbers are whole, and no text of a target controls the terminal."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from tests.measured.handshakes import Shake
from tests.measured.live_readings import BY, SERVICES, failed, history_of, shake

from ssllatency.model.handshakes import Fact, Label
from ssllatency.model.live.history import History, Tally
from ssllatency.model.live.reading import FUNCTION, SERVICE, views
from ssllatency.model.live.rows import rows
from ssllatency.reports.live.columns import columns, layout, ordered
from ssllatency.reports.live.detail import detail
from ssllatency.reports.live.drawings import heatmap, parts_bar, spark
from ssllatency.reports.live.lines import cut
from ssllatency.reports.live.screen import LEAST, State, clauses, compose, explanation, texts
from ssllatency.reports.live.shown import WINDOWS_S, ViewChoice, shown
from ssllatency.reports.live.styled import HEAT, Piece, PieceStyle, fitted, plain
from ssllatency.reports.live.text import render
from ssllatency.reports.text.page import Page

NGINX, LB = "nginx(17)", "haproxy(40)"
ASCII = Page(80)
HOSTILE = "\x1b]0;x\x07[bold red]n\u202egin\nx(17)"
SIZES = [(80, 24), (80, 50), (100, 30), (120, 40), (238, 60)]
STATE = State(views(BY))


def busy(seconds: int = 40) -> History:
    random = Random(7)

    def second() -> list[Shake]:
        ended = [shake(NGINX, random.lognormvariate(0, 1), waits_ms=3, resumed=random.random() < 0.3) for _ in range(20)]
        return [*ended, shake(LB, 900), failed(NGINX)]

    return history_of([second() for _ in range(seconds)], retries=[1234] * seconds)


def screen(history: History, choice: ViewChoice, width: int, height: int, state: State = STATE) -> list[str]:
    at_s = history.newest.at_s if history.newest else 0.0
    return texts(compose(shown(history, choice), history.failures, at_s, state, Page(width), height))


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("view", views(BY))
def test_the_screen_has_its_size_exactly(width: int, height: int, view: str) -> None:
    lines = screen(busy(), ViewChoice(view=view), width, height)
    assert len(lines) == height
    assert max(map(len, lines)) <= width
    assert any(line.startswith("==> ") for line in lines)
    assert lines[-1].endswith("p pause")


def test_all_columns_but_one_fit_into_80_whatever_the_numbers() -> None:
    """No number is cut: each row has as many cells as there are headings, whole; the server's queue is among them."""
    history = history_of([[shake(NGINX, 2000, waits_ms=45_000, queue_ms=12_345)] * 300] * 3, retries=[60_000] * 3)
    now = shown(history, ViewChoice(window_s=300))
    assert now
    fitting = layout(SERVICE, 80, 15)
    assert [column for column in columns(SERVICE) if column.key != "retries"] == list(fitting.columns)
    assert layout(SERVICE, 87, 15).columns == columns(SERVICE)
    assert [column.key for column in columns(SERVICE) if column not in layout(SERVICE, 87, 15, retries=False).columns] == [
        "retries"
    ]
    (row,) = now.rows
    wide = [column.key for column in columns(SERVICE) if len(column.cell(row)) > column.width]
    assert wide == []
    lines = screen(history, ViewChoice(window_s=300), 80, 24)
    (line,) = [line for line in lines if line.startswith("nginx.service ")]
    assert "59.3 s" in line.replace("  ", " ")  # wall times
    assert "12.3 s" in line.replace("  ", " ")
    assert "none failed, queue 12.3 s" in lines[1]
    (line,) = [line for line in screen(history, ViewChoice(window_s=300), 100, 24) if line.startswith("nginx.service ")]
    assert "180000" in line  # retries


def test_a_queue_that_is_not_known_is_not_shown_as_none() -> None:
    history = history_of([[shake(NGINX), shake(LB, queue_ms=3)]])
    known, total = [], ""
    for view in (SERVICE, Label.PROCESS):
        now = shown(history, ViewChoice(view=view))
        assert now
        (column,) = [column for column in columns(view) if column.key == "queue"]
        known.append([column.cell(row) for row in ordered(now.rows, view, "queue")])
        total = screen(history, ViewChoice(view=view), 80, 24)[1]
    assert known == [["3.00 ms", "-"]] * 2
    assert ", queue 3.00 ms" in total
    assert "queue" not in screen(history_of([[shake(NGINX)]]), ViewChoice(), 80, 24)[1]


@pytest.mark.parametrize("view", [SERVICE, FUNCTION])
def test_cells_are_never_wider_than_their_column(view: str) -> None:
    for number in (0, 1, 999, 99_999, 10**6, 10**7, 10**8):
        window = history_of([[shake(NGINX)]]).window(1)
        assert window
        (row,) = rows(window.snapshot, view, SERVICES)
        row = replace(row, count=number, failed=number, retries=number * 10, total_ns=min(number, 999) * 10**9)
        for column in columns(view):
            assert len(column.cell(row)) <= column.width, (column.key, number)


def test_columns_go_in_their_order_where_it_is_narrow() -> None:
    shapes = [layout(SERVICE, width, 30) for width in (80, 70, 62, 54, 46)]
    gone = [{column.key for column in columns(SERVICE)} - {column.key for column in shape.columns} for shape in shapes]
    assert gone[0] == {"retries"}
    assert all(fewer < more for fewer, more in pairwise(gone))
    assert not any("rate" in keys or "failed" in keys for keys in gone)


def test_rows_are_ordered_by_any_column() -> None:
    history = busy()
    now = shown(history, ViewChoice())
    assert now
    for view in (SERVICE, FUNCTION):
        for column in columns(view):
            down = ordered(now.rows, SERVICE, column.key if view == SERVICE else "rate")
            assert [row.name for row in down] in (["nginx.service", "docker:lb"], ["docker:lb", "nginx.service"])
    assert [row.name for row in ordered(now.rows, SERVICE, "p50")] == ["docker:lb", "nginx.service"]
    assert [row.name for row in ordered(now.rows, SERVICE, "p50", ascending=True)] == ["nginx.service", "docker:lb"]
    assert [row.name for row in ordered(now.rows, SERVICE, "name")] == ["docker:lb", "nginx.service"]


def test_choices_go_round() -> None:
    choice, names = ViewChoice(), views(BY)
    seen = [choice := choice.switched(names) for _ in names]
    assert [one.view for one in seen] == [*names[1:], names[0]]
    assert ViewChoice(sort="own").switched(names, -1).sort == "rate"  # functions have no such column
    wider = [choice := choice.widened() for _ in WINDOWS_S]
    assert [one.window_s for one in wider] == [60.0, 300.0, 1.0, 10.0]
    assert ViewChoice(sort="name").sorted_by(1).sort == "rate"
    assert ViewChoice(sort="name").sorted_by(-1).sort == "retries"


def test_a_filter_says_how_many_rows_it_hides() -> None:
    lines = screen(busy(), ViewChoice(contains="LB"), 80, 24)
    assert "only: LB, 1 hidden" in lines[2]
    assert any(line.startswith("docker:lb") for line in lines)
    assert not any(line.startswith("nginx.service ") for line in lines)


def test_the_chosen_row_is_among_those_that_are_seen() -> None:
    history = history_of([[shake(f"nginx({pid})") for pid in range(1, 60)]])
    for name in ("nginx(1)", "nginx(30)", "nginx(59)"):
        now = shown(history, ViewChoice(view=Label.PROCESS, row=name, sort="name"))
        assert now
        lines = compose(now, [], 0, STATE, ASCII, 24)
        selected = [piece.text for line in lines[3:] for piece in line if piece.style is PieceStyle.SELECTED]
        assert [text.split()[0] for text in selected] == [name]


def test_no_text_of_a_target_controls_the_terminal() -> None:
    history = history_of([[shake(HOSTILE), failed(HOSTILE, "\x1b[2J[/]\nreason")] * 20], services={17: HOSTILE})  # type: ignore[arg-type]
    state = State(views(BY), recording="\x1b[1mfile", notice="\x1b[2J")
    for view in views(BY):
        choice = ViewChoice(view=view, contains="n")
        now = shown(history, choice)
        assert now
        drawn = [*screen(history, choice, 120, 40, state), *texts(detail(now, ASCII)), *render(history, choice).splitlines()]
        assert all(line.isprintable() and line.isascii() for line in drawn)
        assert view == FUNCTION or any("gin" in line for line in drawn)


def test_too_small_a_terminal_is_told_so() -> None:
    lines = screen(busy(3), ViewChoice(), 79, 24)
    assert lines[0] == "79 x 24 is too small: top needs 80 x 24."
    assert len(lines) == 24
    assert screen(busy(3), ViewChoice(), 20, 5)[0] == "20 x 5 is too small:"
    assert not screen(busy(3), ViewChoice(), *LEAST)[0].endswith("80 x 24.")


def test_before_the_first_numbers_it_says_so() -> None:
    lines = screen(History(), ViewChoice(), 80, 24)
    assert "in a moment" in lines[0]
    assert len(lines) == 24


def test_paused_and_recording_are_marked() -> None:
    marked = screen(busy(3), ViewChoice(), 120, 24, State(views(BY), paused=True, recording="x.jsonl"))[1]
    assert marked.startswith(" PAUSED  REC x.jsonl ")


@pytest.mark.parametrize("by", [(), BY])
@pytest.mark.parametrize("recording", ["", "ssllatency-20261128-010119.jsonl"])
def test_of_what_is_lost_both_number_and_noun_are_seen(
    by: tuple[Label, ...], recording: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ssllatency.reports.live.lines.losses", lambda *_: ["1234 calls not counted because a map was full"])
    lines = screen(busy(3), ViewChoice(), 80, 24, State(views(by), recording=recording))
    assert any("  LOST: 1234 calls " in line for line in lines[1:3])


def test_a_notice_that_is_too_long_ends_with_a_clause() -> None:
    whole = "The probes cost 8 other processes up to 9.00 us a call: nginx, postgres, python3; --links process spares them."
    assert clauses(whole, 60) == "The probes cost 8 other processes up to 9.00 us a call"
    assert clauses(whole, 80) == whole[: whole.index("; --links")]
    assert clauses(whole, len(whole)) == whole
    assert clauses("x" * 99, 80) == "x" * 99


def test_what_is_quiet_is_said_to_be() -> None:
    lines = screen(history_of([[], []]), ViewChoice(), 80, 24)
    assert any("No handshake ended" in line for line in lines)


def test_a_spark_line_shows_the_newest_and_every_little() -> None:
    assert spark([0, 1, 1000], 5, ASCII) == "   .#"
    assert spark([5, 5], 1, ASCII) == "#"
    assert spark([], 3, ASCII) == "   "
    assert spark([0, 4, 8], 3, Page(80, unicode=True)) == " ▄█"


def test_a_heatmap_has_the_longest_at_the_top_and_now_to_the_right() -> None:
    tallied = [Tally(0, 0, {}), Tally(1, 0, {200: 1}), Tally(101, 0, {200: 100, 204: 1})]
    lines = heatmap(tallied, 40, 6, ASCII)
    drawn = texts(lines)
    assert [line[8:].rstrip() for line in drawn if line[8:].strip()] == [" " * 31 + ".", " " * 30 + ".#"]
    assert drawn[0][8:].strip() == "."
    assert {piece.style for line in lines for piece in line} == {PieceStyle.FAINT, PieceStyle.PLAIN, HEAT[0], HEAT[-1]}
    assert heatmap([Tally(3, 3, {})], 40, 6, ASCII) == []


def test_a_heatmap_of_many_intervals_fits() -> None:
    tallied = [Tally(1, 0, {150 + number % 40: 1}) for number in range(300)]
    drawn = texts(heatmap(tallied, 80, 6, ASCII))
    assert len(drawn) <= 6
    assert max(map(len, drawn)) <= 80


def test_the_largest_part_comes_first_and_stands_out() -> None:
    window = history_of([[shake(NGINX, 2, waits_ms=6)] * 5]).window(1)
    assert window
    (row,) = rows(window.snapshot, SERVICE, SERVICES)
    bar, legend, *_ = parts_bar(row, ASCII, lines=2)
    assert sum(len(piece.text) for piece in bar) == 80
    assert legend[0].text.startswith(". wait: peer 75 %")
    assert legend[0].style is PieceStyle.WAIT


def test_a_long_name_keeps_both_ends() -> None:
    assert cut("nginx-7f9c-frontend.service", 13) == "nginx-~ervice"
    assert cut("nginx", 13) == "nginx"


def test_the_plain_lines_are_of_one_interval_and_fit() -> None:
    history = busy()
    text = render(history, ViewChoice(window_s=1), Page(80))
    assert text.isascii()
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("docker:lb") == 1
    assert "40 x failed: no shared cipher" in text
    assert render(History(), ViewChoice()) == ""


def test_details_are_of_the_row_alone_and_say_what_is_of_all() -> None:
    now = shown(busy(), ViewChoice(row="docker:lb"))
    assert now
    lines = texts(detail(now, ASCII))
    assert lines[0] == "docker:lb: 10 handshakes in 10.0 s, 0 of them failed"
    assert "Processes: 40" in lines
    assert any(line.split()[:3] == ["wall", "10", "100"] for line in lines)
    assert "All that is traced:" in lines
    calls = shown(busy(), ViewChoice(view=FUNCTION))
    assert calls
    assert any("retries" in line and "12340" in line for line in texts(detail(calls, ASCII)))


def test_details_tell_what_is_known_of_the_network() -> None:
    far = replace(shake(LB), facts={Fact.SOCKET: 1, Fact.FLIGHTS: 3})
    now = shown(history_of([[far]]), ViewChoice(row="docker:lb"))
    assert now
    sentence = "Network and resumption: 3.0 flights of the peer per handshake were waited for."
    assert sentence in texts(detail(now, ASCII))
    assert not any("Network" in line for line in texts(detail(shown(busy(), ViewChoice()), ASCII)))  # type: ignore[arg-type]


def test_help_explains_every_column() -> None:
    text = "\n".join(explanation(views(BY)))
    assert all(column.explained and f"  {column.heading} " in text for view in (SERVICE, FUNCTION) for column in columns(view))
    assert max(map(len, text.splitlines())) <= 78


def test_no_word_is_cut_in_two() -> None:
    line = [
        Piece("12:00:05  ", PieceStyle.FAINT),
        Piece('failed: no shared cipher, alert "handshake failure"', PieceStyle.FAILURE),
    ]
    assert plain(fitted(line, 80)) == plain(line)
    for width in range(40, 59):
        text = plain(fitted(line, width))
        assert len(text) <= width
        first, more, _ = text.partition(" ...")
        assert more
        assert plain(line)[len(first)] == " "
    history = history_of([[failed(NGINX, "a reason that is so long that no terminal of eighty columns shows it")]] * 3)
    assert [text for text in screen(history, ViewChoice(), 80, 24) if text.endswith(" ...")]


def test_help_is_wrapped_under_its_own_words() -> None:
    lines = explanation([*views((*BY, Label.SNI, Label.PORT, Label.VERSION, Label.CIPHER))])
    assert max(map(len, lines)) <= 78
    assert all(line.startswith(" ") or len(line) < 1 or line[:16].rstrip() for line in lines)
