# SPDX-License-Identifier: Apache-2.0
"""No key is lost, however fast one follows another: those that come together, as over a slow line, mean the same as by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest
from tests.unit.output.screen.test_screen import Lines, Recorder, run, text
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input

from ssllatency.output.screen.app import TopApp
from ssllatency.output.screen.child import ChildCommand
from ssllatency.output.screen.dialogs import CommandScreen, TextScreen
from ssllatency.output.screen.keys import KeyParser

NAMED = {"escape": "\x1b", "enter": "\r", "slash": "/"}


def together(app: TopApp, *keys: str) -> None:
    """The keys at once, as the terminal's reader hands them over."""
    for key in keys:
        app.post_message(events.Key(key, NAMED.get(key, key if len(key) == 1 else None)))


async def settled(pilot: Pilot[None]) -> None:
    for _ in range(3):
        await pilot.pause(0.05)


def snoop(arguments: Sequence[str]) -> ChildCommand:
    return cast("ChildCommand", Lines(arguments))


@pytest.mark.parametrize("keys", [("escape", "r"), ("alt+r",)])
def test_escape_and_a_key_are_two_keys(keys: tuple[str, ...]) -> None:
    """Terminals send Alt-r as the two bytes of Esc and r, so that Textual takes Esc, r in one read for Alt-r."""
    recorder = Recorder()

    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        await pilot.press("slash", *"lb", "enter")
        assert "only: lb" in text(app)
        together(app, *keys)
        await settled(pilot)
        assert "only:" not in text(app)
        assert recorder.running

    run(steps, recorder=recorder)


def test_a_dialog_is_left_by_a_key_that_follows_at_once() -> None:
    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        for opening in ("enter", "s", "question_mark"):
            together(app, opening, "escape", "tab")
            await settled(pilot)
            assert len(app.screen_stack) == 1
        assert text(app).splitlines()[3].split()[0] == "FUNCTION"  # three views further

    run(steps, snoop=snoop)


@pytest.mark.parametrize(("opening", "dialog"), [("s", CommandScreen), ("enter", TextScreen)])
def test_recording_starts_within_a_dialog_too(opening: str, dialog: type) -> None:
    recorder = Recorder()

    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        together(app, opening, "r")
        await settled(pilot)
        assert recorder.running
        assert isinstance(app.screen, dialog)
        together(app, "escape")
        await settled(pilot)
        assert " REC x.jsonl " in text(app)

    run(steps, recorder=recorder, snoop=snoop)


def test_what_is_typed_at_once_is_the_filter_and_what_follows_is_a_key() -> None:
    recorder = Recorder()

    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        together(app, "slash", *"lb", "enter", "r")
        await settled(pilot)
        assert "only: lb, 1 hidden" in text(app)
        assert not app.query(Input)
        assert recorder.running

    run(steps, recorder=recorder)


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        ("\x1br", ["escape", "r"]),
        ("\x1b5", ["escape", "5"]),  # alone it is what a Mac types with Alt, to Textual
        ("\x1b?", ["escape", "question_mark"]),
        ("\x1b\r", ["escape", "enter"]),
        ("\x1b\t", ["escape", "tab"]),
        ("\x1b/lb\r", ["escape", "slash", "l", "b", "enter"]),
        ("\x1b[A\x1b[Br", ["up", "down", "r"]),
        ("\x1bOP\x1b[Z", ["f1", "shift+tab"]),
    ],
)
def test_bytes_of_a_terminal_are_the_keys_that_were_pressed(sent: str, keys: list[str]) -> None:
    read = [event.key for event in KeyParser().feed(sent) if isinstance(event, events.Key)]
    assert read == keys
    parser = KeyParser()
    in_pieces = [event.key for byte in sent for event in parser.feed(byte) if isinstance(event, events.Key)]
    assert in_pieces == keys
