# SPDX-License-Identifier: Apache-2.0
"""The live view as an application of Textual: takes readings, and draws them by what was chosen with keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from ssllatency.errors import SsllatencyError
from ssllatency.model.live.history import History
from ssllatency.model.live.reading import FUNCTION, LiveReading, views
from ssllatency.model.live.rows import LiveRow
from ssllatency.output.screen.child import ChildCommand
from ssllatency.output.screen.colours import coloured
from ssllatency.output.screen.dialogs import CommandScreen, LineScreen, TextScreen
from ssllatency.output.screen.keys import apart
from ssllatency.output.screen.recorder import Recorder
from ssllatency.reports.live.detail import detail
from ssllatency.reports.live.screen import State, chosen_words, compose, explanation
from ssllatency.reports.live.shown import VIEW_KEYS, ViewChoice, how_to_see, shown, title
from ssllatency.reports.live.styled import Line, Piece
from ssllatency.reports.text.page import Page
from ssllatency.units import printable

_MOST_PIDS = 64  # of a row that is snooped on
_PAGE_ROWS = 10
_ALWAYS = ("quit", "suspend_process", "pop_screen")
_OURS = "ssllatency: "  # what sentences on standard error begin with


class Read(Message):
    """There is a new reading; a notice goes with it, "" for none."""

    def __init__(self, reading: LiveReading, notice: str = "") -> None:
        super().__init__()
        self.reading, self.notice = reading, notice


class Ended(Message):
    """There are no more readings: for this reason, "" where the application is to end as well."""

    def __init__(self, why: str = "") -> None:
        super().__init__()
        self.why = why


class View(Widget):
    """The whole screen, drawn by the application."""

    def __init__(self, draw: Callable[[int, int], Text]) -> None:
        super().__init__()
        self._draw = draw

    def render(self) -> Text:
        return self._draw(self.size.width, self.size.height)


class TopApp(App[None]):
    """The application. `begin` is called once it can take messages."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    View { width: 100%; height: 100%; }
    Log { height: 1fr; }
    LineScreen { align: left bottom; background: transparent; }
    LineScreen Input { width: 100%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("ctrl+c", "quit", "quit", priority=True),
        Binding("question_mark,h,f1", "help", "help"),
        *(Binding(key, f"view_of('{view}')", title(view)) for key, view in VIEW_KEYS.items()),
        Binding("tab", "view(1)", "next view", priority=True),
        Binding("shift+tab", "view(-1)", "previous view", priority=True),
        Binding("less_than_sign,comma", "sort(-1)", "order by the column to the left"),
        Binding("greater_than_sign,full_stop", "sort(1)", "order by the column to the right"),
        Binding("i", "invert", "reverse the order"),
        Binding("slash,f4", "filter", "filter"),
        Binding("escape", "all", "all rows"),
        Binding("w", "window", "the time that rows cover"),
        Binding("enter", "detail", "detail"),
        Binding("s", "snoop", "snoop"),
        Binding("r", "record", "record"),
        Binding("p,space", "pause", "pause"),
        Binding("ctrl+z", "suspend_process", "into the background"),
        Binding("down,j", "move(1)", "down"),
        Binding("up,k", "move(-1)", "up"),
        Binding("pagedown", f"move({_PAGE_ROWS})", "further down"),
        Binding("pageup", f"move(-{_PAGE_ROWS})", "further up"),
        Binding("home,g", "move(-100000)", "the first"),
        Binding("end,G", "move(100000)", "the last"),
    ]

    def __init__(
        self,
        choice: ViewChoice,
        recorder: Recorder,
        *,
        unicode: bool = True,
        begin: Callable[[TopApp], None] = lambda _: None,
        snoop: Callable[[Sequence[str]], ChildCommand] = ChildCommand,
    ) -> None:
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self._choice, self._recorder, self._unicode, self._begin, self._snoop = choice, recorder, unicode, begin, snoop
        self._history = History()
        self._frozen: History | None = None  # what is shown while it is paused
        self._notice = ""

    def compose(self) -> ComposeResult:
        yield View(self._draw)

    def on_mount(self) -> None:
        self.begin_capture_print(self)
        self._begin(self)

    async def on_event(self, event: events.Event) -> None:
        """Act on keys at once, in their order: Textual passes them on from one queue to the next, so that a key that follows
        another too fast goes to a screen that the one before has left."""
        if not isinstance(event, events.Key) or event.is_forwarded:
            await super().on_event(event)
            return
        for key in apart(event):
            if isinstance(self.screen, LineScreen) and self.screen.typed(key):
                continue
            if not await self._check_bindings(key.key, priority=True) and not await self._check_bindings(key.key):
                await super().on_event(key)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """In a dialog keys are its own, but for those that end or stop the whole program, or record."""
        del parameters
        if len(self.screen_stack) == 1 or action in _ALWAYS:
            return True
        return action == "record" and not isinstance(self.screen, LineScreen)

    def on_print(self, event: events.Print) -> None:
        """Take what other parts tell the user while the screen is ours."""
        if text := event.text.strip():
            self._say(text.removeprefix(_OURS))

    def on_read(self, message: Read) -> None:
        self._history.add(message.reading)
        if message.notice:
            self._notice = message.notice
        if self._choice.view not in self._views():  # chosen by a key before it was known which there are
            self._notice = how_to_see(self._choice.view, self._views())
            self._choice = self._choice.viewed(self._views()[0])
        if not self._frozen:
            self._redraw()

    def on_ended(self, message: Ended) -> None:
        if not message.why:
            self.exit()
            return
        self._say(f"{message.why} q quits.")

    @property
    def _shown_history(self) -> History:
        return self._frozen or self._history

    def _views(self) -> Sequence[str]:
        newest = self._history.newest
        handshakes = newest.snapshot.handshakes if newest else None
        return views(handshakes.by, functions=newest.functions) if newest and handshakes else (FUNCTION,)

    def _draw(self, width: int, height: int) -> Text:
        history = self._shown_history
        recording = self._recorder.file if self._recorder.running else ""
        state = State(self._views(), self._frozen is not None, recording, self._notice)
        at_s = history.newest.at_s if history.newest else 0.0
        page = Page(width, self._unicode)
        return coloured(compose(shown(history, self._choice), history.failures, at_s, state, page, height))

    def _redraw(self) -> None:
        for view in self.query(View):
            view.refresh()
        if isinstance(self.screen, TextScreen):
            self.screen.renew()

    def _say(self, notice: str) -> None:
        self._notice = printable(" ".join(notice.split()))
        self._redraw()

    def _choose(self, choice: ViewChoice) -> None:
        self._choice = choice
        self._redraw()

    def _chosen(self) -> LiveRow | None:
        now = shown(self._shown_history, self._choice)
        return now.chosen if now else None

    def action_view(self, step: int) -> None:
        """Switches between services, processes, labels, functions."""
        self._choose(self._choice.switched(self._views(), step))

    def action_view_of(self, view: str) -> None:
        """Switches to this view, or tells what to type for it."""
        if self._history.newest and view not in self._views():
            self._say(how_to_see(view, self._views()))
            return
        self._choose(self._choice.viewed(view))

    def action_sort(self, step: int) -> None:
        """Orders the rows by another column."""
        self._choose(self._choice.sorted_by(step))

    def action_invert(self) -> None:
        """Reverses the order of the rows."""
        self._choose(replace(self._choice, ascending=not self._choice.ascending))

    def action_window(self) -> None:
        """Rows of a longer time, or of the shortest again."""
        self._choose(self._choice.widened())
        self._say(f"rows are of the last {self._choice.window_s:g} s")

    def action_all(self) -> None:
        """Shows all rows again."""
        self._choose(replace(self._choice, contains=""))

    def action_move(self, rows: int) -> None:
        """Chooses a row further down, or up."""
        now = shown(self._shown_history, self._choice)
        if now and now.chosen:
            position = now.rows.index(now.chosen) + rows
            self._choose(replace(self._choice, row=now.rows[max(0, min(position, len(now.rows) - 1))].name))

    async def action_filter(self) -> None:
        """Asks for a text that names contain."""

        def take(text: str | None) -> None:
            if text is not None:
                self._choose(replace(self._choice, contains=text.strip()))

        await self.push_screen(LineScreen("web, or service:web pod:web namespace:web name:web", self._choice.contains), take)

    def action_pause(self) -> None:
        """Stops drawing what is new, or goes on."""
        self._frozen = None if self._frozen else self._history.copy()
        self._redraw()

    def action_record(self) -> None:
        """Starts or stops a recording."""
        try:
            self._say(self._recorder.toggle())
        except SsllatencyError as error:
            self._say(str(error))

    def action_help(self) -> None:
        """Explains keys and columns."""
        self.push_screen(TextScreen(lambda: [[Piece(line)] for line in explanation(self._views())]))

    def action_detail(self) -> None:
        """All about the chosen row."""
        row = self._chosen()
        if row:
            self._choose(replace(self._choice, row=row.name))
            self.push_screen(TextScreen(self._detail))

    def _detail(self) -> Sequence[Line]:
        now = shown(self._shown_history, self._choice)
        return detail(now, Page(self.size.width - 2, self._unicode)) if now else []

    def action_snoop(self) -> None:
        """Shows the chosen row's calls one by one."""
        row = self._chosen()
        if row is None or not (row.pids or self._choice.view == FUNCTION):
            self._say("This row's processes aren't known: choose one among services, processes or functions.")
            return
        pids = sorted(row.pids)[:_MOST_PIDS]
        if not pids:
            self._say("No process is known that calls this.")
            return
        function = ["--function", row.name] if self._choice.view == FUNCTION else []
        arguments = ["snoop", "-p", ",".join(map(str, pids)), "--columns", str(self.size.width - 2), *function]
        self.push_screen(CommandScreen(f"ssllatency snoop on {printable(chosen_words(row))}", lambda: self._snoop(arguments)))

    def _print_error_renderables(self) -> None:
        """No traceback: run_screen() raises what went wrong."""
        self._exit_renderables.clear()
