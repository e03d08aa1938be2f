# SPDX-License-Identifier: Apache-2.0
"""The full screen by Textual's pilot: keys do what help says, with made-up readings and no kernel."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, cast

import pytest
from rich.text import Text
from tests.measured.live_readings import BY, failed, readings, shake
from textual.pilot import Pilot
from textual.widgets import Input, Log, Static

from ssllatency.errors import SsllatencyError
from ssllatency.model.handshakes import Label
from ssllatency.model.live.history import History
from ssllatency.model.live.reading import LiveReading
from ssllatency.output.screen import need
from ssllatency.output.screen.app import Ended, Read, TopApp, View
from ssllatency.output.screen.child import ChildCommand
from ssllatency.output.screen.need import forget_settings, need_textual
from ssllatency.reports.live.shown import ViewChoice

NGINX, OTHER, LB = "nginx(17)", "nginx(18)", "haproxy(40)"
SECONDS = [[shake(NGINX), shake(OTHER), shake(NGINX, 8), shake(LB), failed(NGINX)]] * 5
AT_FIRST = ViewChoice()
Steps = Callable[[Pilot[None], TopApp], Awaitable[None]]


class Recorder:
    """Says what it was asked to do."""

    def __init__(self, refuses: bool = False) -> None:
        self.running, self.file, self._refuses = False, "", refuses

    def toggle(self) -> str:
        if self._refuses:
            raise SsllatencyError("x.jsonl is there already.")
        self.running, self.file = not self.running, "x.jsonl"
        return "Recording to x.jsonl" if self.running else "x.jsonl holds 3 intervals."

    def take(self, reading: LiveReading) -> str:
        del reading
        return ""

    def close(self) -> str:
        return ""


class Lines:
    """A command that has printed a few lines."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self.arguments, self.ended, self.over, self.count = list(arguments), 0, False, 2
        self._lines = ["12:00:00 [bold]SSL_read", "\x1b[2Jhostile"]

    def taken(self) -> list[str]:
        lines, self._lines = self._lines, []
        return lines

    def end(self) -> None:
        self.ended += 1


def run(
    steps: Steps,
    choice: ViewChoice = AT_FIRST,
    size: tuple[int, int] = (80, 24),
    recorder: Recorder | None = None,
    by: tuple[Label, ...] = (Label.VERSION,),
    **kwargs: Any,
) -> TopApp:
    """Runs the application with the readings, and the steps in it."""

    async def piloted() -> TopApp:
        app = TopApp(choice, recorder or Recorder(), **kwargs)
        async with app.run_test(size=size) as pilot:
            for reading in readings(SECONDS, by=(*BY, *by)):
                app.post_message(Read(reading))
            await pilot.pause()
            await steps(pilot, app)
        return app

    return asyncio.run(piloted())


def text(app: TopApp) -> str:
    """What the view shows."""
    view = app.screen_stack[0].query_one(View)
    return cast("Text", view.render()).plain


def row_of(app: TopApp, name: str) -> list[str]:
    (line,) = [line for line in text(app).splitlines()[3:8] if line.startswith(f"{name} ")]
    return line.split()


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_it_shows_what_it_is_told(size: tuple[int, int]) -> None:
    async def steps(_: Pilot[None], app: TopApp) -> None:
        assert row_of(app, "nginx.service")[1:4] == ["4", "0", "%"]
        assert row_of(app, "docker:lb")[1] == "1"
        assert "5 x failed: no shared cipher" in text(app)
        assert len(text(app).splitlines()) == size[1]

    run(steps, size=size)


def test_views_are_switched() -> None:
    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        seen = []
        for _ in range(4):
            await pilot.press("tab")
            seen.append(text(app).splitlines()[3].split()[0])
        assert seen == ["PROCESS", "VERSION", "FUNCTION", "SERVICE"]
        await pilot.press("shift+tab")
        assert text(app).splitlines()[4].startswith("SSL_do_handshake")

    run(steps)


def test_each_view_has_a_key() -> None:
    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        for key, heading in {"2": "PROCESS", "5": "FUNCTION", "1": "SERVICE"}.items():
            await pilot.press(key)
            assert text(app).splitlines()[3].split()[0] == heading
        assert "1 services  2 processes  versions  5 functions" in text(app)

    run(steps)


def test_functions_that_were_not_asked_for_say_what_to_type() -> None:
    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        newest = app._history.newest
        assert newest
        app.post_message(Read(replace(newest, functions=False)))
        await pilot.pause()
        await pilot.press("5")
        assert text(app).splitlines()[3].split()[0] == "SERVICE"
        assert text(app).splitlines()[-2].rstrip() == "Functions are measured only when asked for: ssllatency top --functions"
        await pilot.press("question_mark")
        helped = cast("Text", app.screen.query_one("#text", Static).content).plain
        assert "functions need --functions" in helped
        assert "Columns of functions" not in helped

    run(steps)


def test_a_view_that_was_not_asked_for_says_what_to_type() -> None:
    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        for key, name in {"3": "Ports", "4": "Server names"}.items():
            await pilot.press(key)
            assert text(app).splitlines()[3].split()[0] == "SERVICE"
            notice = text(app).splitlines()[-2].rstrip()
            assert notice == f"{name} are read only when asked for: ssllatency top --by version,port,sni"
        await pilot.press("question_mark")
        helped = cast("Text", app.screen.query_one("#text", Static).content).plain
        assert "1 2 3 4 5       services, processes, ports, server names, functions" in helped
        assert "ports and server names need --by: ssllatency top --by port,sni" in helped

    run(steps)


def test_ports_and_server_names_are_views_once_they_are_asked_for() -> None:
    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        for key, heading in {"3": "PORT", "4": "SNI"}.items():
            await pilot.press(key)
            assert text(app).splitlines()[3].split()[0] == heading
        await pilot.press("question_mark")
        assert "need --by" not in cast("Text", app.screen.query_one("#text", Static).content).plain

    run(steps, by=(Label.PORT, Label.SNI))


@pytest.mark.parametrize(
    ("key", "functions", "heading", "words"),
    [("2", True, "PROCESS", "2 processes"), ("5", False, "SERVICE", "ssllatency top --functions")],
    ids=["a view that is there", "one that isn't"],
)
def test_a_key_before_the_first_numbers_is_kept(key: str, functions: bool, heading: str, words: str) -> None:
    async def piloted() -> None:
        app = TopApp(AT_FIRST, Recorder())
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press(key)
            for reading in readings(SECONDS, by=BY):
                app.post_message(Read(replace(reading, functions=functions)))
            await pilot.pause()
            assert text(app).splitlines()[3].split()[0] == heading
            assert words in text(app)

    asyncio.run(piloted())


def test_rows_are_ordered_filtered_and_chosen() -> None:
    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        first = [text(app).splitlines()[4].split()[0]]
        for keys in (["less_than_sign"], ["i"]):
            await pilot.press(*keys)
            first.append(text(app).splitlines()[4].split()[0])
        assert first == ["nginx.service", "docker:lb", "nginx.service"]
        await pilot.press("down")
        assert "docker:lb: successful handshakes by duration" in text(app)
        await pilot.press("slash", *"LB", "enter")
        assert "only: LB, 1 hidden" in text(app)
        await pilot.press("escape")
        assert "only:" not in text(app)

    run(steps)


def test_a_filter_can_be_given_up() -> None:
    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        await pilot.press("slash", "x")
        assert app.screen.query_one(Input).value == "x"
        await pilot.press("escape")
        assert len(app.screen_stack) == 1
        assert "only:" not in text(app)

    run(steps)


def test_paused_it_stays_as_it_is_and_misses_nothing() -> None:
    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        before = row_of(app, "docker:lb")
        await pilot.press("p")
        for reading in readings([*SECONDS, *[[shake(LB)] * 50] * 3])[6:]:
            app.post_message(Read(reading))
        await pilot.pause()
        assert row_of(app, "docker:lb") == before
        assert " PAUSED " in text(app)
        await pilot.press("space")
        assert row_of(app, "docker:lb")[1] == "19.4"  # 155 in 8 s

    run(steps, ViewChoice(window_s=300))


def test_details_go_on_while_they_are_seen() -> None:
    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        await pilot.press("enter")
        shown = cast("Text", app.screen.query_one("#text", Static).content).plain
        assert shown.startswith("nginx.service: 20 handshakes in 5.00 s, 5 of them failed")
        app.post_message(Read(readings([*SECONDS, [shake(NGINX)] * 9])[6]))
        await pilot.pause()
        assert cast("Text", app.screen.query_one("#text", Static).content).plain.startswith("nginx.service: 29 ")
        await pilot.press("escape")
        assert len(app.screen_stack) == 1

    run(steps)


def test_help_is_there() -> None:
    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        await pilot.press("question_mark")
        assert "order rows by another column" in cast("Text", app.screen.query_one("#text", Static).content).plain
        await pilot.press("q")
        assert len(app.screen_stack) == 1

    run(steps)


def test_the_chosen_row_is_snooped_on_until_one_goes_back() -> None:
    started: list[Lines] = []

    def snoop(arguments: Sequence[str]) -> ChildCommand:
        started.append(Lines(arguments))
        return cast("ChildCommand", started[-1])

    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        await pilot.press("s")
        for _ in range(20):
            await pilot.pause(0.1)
            if app.screen.query_one(Log).line_count > 1:
                break
        assert [*app.screen.query_one(Log).lines][:2] == ["12:00:00 [bold]SSL_read", "\\u001b[2Jhostile"]
        await pilot.press("escape")
        assert len(app.screen_stack) == 1

    run(steps, snoop=snoop)
    assert [lines.arguments[:3] for lines in started] == [["snoop", "-p", "17,18"]]
    assert started[0].ended == 1


def test_what_is_snooped_on_ends_with_the_application() -> None:
    started: list[Lines] = []

    def snoop(arguments: Sequence[str]) -> ChildCommand:
        started.append(Lines(arguments))
        return cast("ChildCommand", started[-1])

    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        await pilot.press("s")
        await pilot.pause(0.1)
        app.post_message(Ended())
        await pilot.pause(0.1)

    run(steps, snoop=snoop)
    assert started[0].ended == 1


def test_a_row_without_processes_is_not_snooped_on() -> None:
    """What is beyond the bound on rows."""

    def refuse(arguments: Sequence[str]) -> ChildCommand:
        raise AssertionError(arguments)

    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        (reading,) = readings([[shake(LB)] * 1000])[1:]
        handshakes = reading.snapshot.handshakes
        assert handshakes
        other = replace(handshakes, groups=tuple(replace(group, labels={}, other=True) for group in handshakes.groups))
        snapshot = replace(reading.snapshot, handshakes=other, duration_s=2.0)
        app._history = History()
        for one in (readings([])[0], replace(reading, snapshot=snapshot)):
            app.post_message(Read(one))
        await pilot.pause()
        assert row_of(app, "other")
        await pilot.press("s")
        assert len(app.screen_stack) == 1
        assert "This row's processes aren't known" in text(app)

    run(steps, snoop=refuse)


def test_recording_is_switched_and_shown() -> None:
    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        await pilot.press("r")
        assert " REC x.jsonl " in text(app)
        await pilot.press("r")
        assert " REC " not in text(app)
        assert "x.jsonl holds 3 intervals." in text(app)

    run(steps)


def test_a_file_that_cannot_be_written_is_told() -> None:
    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        await pilot.press("r")
        assert "x.jsonl is there already." in text(app)

    run(steps, recorder=Recorder(refuses=True))


def test_what_other_parts_print_is_a_notice() -> None:
    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        print("ssllatency: nginx (17)\x1b[2J mapped a file.")
        await pilot.pause()
        assert "\nnginx (17)\\x1b[2J mapped a file." in text(app)

    run(steps)


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_it_ends(key: str) -> None:
    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        await pilot.press(key)
        await pilot.pause()
        assert app._exit

    run(steps)


def test_when_nothing_is_left_to_trace_it_stays_and_says_so() -> None:
    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        app.post_message(Ended("All traced processes have ended."))
        await pilot.pause()
        assert "All traced processes have ended. q quits." in text(app)
        assert not app._exit

    run(steps)


def test_a_terminal_that_grows_and_shrinks() -> None:
    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        await pilot.resize_terminal(60, 20)
        await pilot.pause()
        assert "60 x 20 is too small: top needs 80 x 24." in text(app)
        await pilot.resize_terminal(120, 40)
        await pilot.pause()
        assert len(text(app).splitlines()) == 40

    run(steps)


def test_no_color_leaves_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def steps(_: Pilot[None], app: TopApp) -> None:
        background = app.screen.background_colors[1]
        strips = [strip.apply_filter(app._filters[-1], background) for strip in app.screen._compositor.render_strips()]
        styles = [segment.style for strip in strips for segment in strip if segment.style]
        assert any(style.reverse for style in styles)  # the chosen row is still to be seen
        assert all(style.color is None or style.color.is_default for style in styles)
        assert all(style.bgcolor is None or style.bgcolor.is_default for style in styles)

    run(steps)


def test_without_textual_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(need, "find_spec", lambda _: None)
    with pytest.raises(SsllatencyError, match=r"pip install 'textual>=8,<9'.*--plain"):
        need_textual()


def test_textual_must_have_a_version_that_the_screen_is_made_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By what lies beside the module; in the packages, which bring it along, nothing does."""
    module = tmp_path / "textual" / "__init__.py"
    monkeypatch.setattr(need, "find_spec", lambda _: ModuleSpec("textual", None, origin=str(module)))
    need_textual()
    folder = tmp_path / "textual-0.1.13.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: textual\nVersion: 0.1.13\n")
    with pytest.raises(SsllatencyError, match=r"not 0\.1\.13"):
        need_textual()


def test_textuals_own_variables_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """They name a module to import, and a file to write."""
    monkeypatch.setenv("TEXTUAL_DRIVER", "evil:Driver")
    monkeypatch.setenv("TEXTUAL_LOG", "/etc/passwd")
    forget_settings()
    assert not [name for name in os.environ if name.startswith("TEXTUAL")]
