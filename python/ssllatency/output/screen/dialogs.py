# SPDX-License-Identifier: Apache-2.0
"""Dialogs in place of the live view: text to scroll through, the lines of a command, a line to type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.events import Key
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, Log, Static

from ssllatency.output.printing import harmless
from ssllatency.output.screen.child import ChildCommand
from ssllatency.output.screen.colours import coloured
from ssllatency.reports.live.styled import Line, Piece, PieceStyle

_LOOK_S = 0.25
_BACK: Sequence[BindingType] = (Binding("escape,q", "app.pop_screen", "back"),)


class TextScreen(Screen[None]):
    """Lines to scroll through, made anew now and then."""

    BINDINGS: ClassVar[list[BindingType]] = [*_BACK, Binding("question_mark,enter", "app.pop_screen", "back")]

    def __init__(self, lines: Callable[[], Sequence[Line]]) -> None:
        super().__init__()
        self._lines = lines

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(id="text")
        yield Static(
            coloured([[Piece("Esc", PieceStyle.KEY), Piece(" back  "), Piece("arrows", PieceStyle.KEY), Piece(" scroll")]])
        )

    def on_mount(self) -> None:
        self.renew()

    def on_resize(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Shows the lines as they are now."""
        self.query_one("#text", Static).update(coloured(self._lines()))


class CommandScreen(Screen[None]):
    """The lines of a command of ours as they come. Going back ends it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "back", "back")]

    def __init__(self, title: str, start: Callable[[], ChildCommand]) -> None:
        super().__init__()
        self._title, self._start = title, start
        self._child: ChildCommand | None = None

    def compose(self) -> ComposeResult:
        yield Static(coloured([[Piece(self._title, PieceStyle.STRONG)]]))
        yield Log(highlight=False, max_lines=2000, auto_scroll=True)
        yield Static(id="state")

    def on_mount(self) -> None:
        self._child = self._start()
        self.set_interval(_LOOK_S, self._look)

    def on_unmount(self) -> None:
        self.end()

    def action_back(self) -> None:
        """Ends the command and goes back."""
        self.end()
        self.app.pop_screen()

    def end(self) -> None:
        """Ends the command, if it runs."""
        if self._child:
            self._child.end()
        self._child = None

    def _look(self) -> None:
        if self._child is None:
            return
        over = self._child.over
        self.query_one(Log).write_lines([harmless(line) for line in self._child.taken()])
        what = "it has ended" if over else "running"
        line = [Piece("Esc", PieceStyle.KEY), Piece(f" back  {self._child.count} lines, {what}", PieceStyle.FAINT)]
        self.query_one("#state", Static).update(coloured([line]))


class LineScreen(ModalScreen[str | None]):
    """A line to type, below the view: what was typed, None where it was given up."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "give_up", "give up")]

    def __init__(self, prompt: str, value: str) -> None:
        super().__init__()
        self._prompt, self._value = prompt, value

    def on_mount(self) -> None:
        self.set_focus(self.query_one(Input))

    def compose(self) -> ComposeResult:
        yield Input(self._value, placeholder=self._prompt, compact=True)

    def typed(self, key: Key) -> bool:
        """Take a character of the line, or its end; False for keys that move within it."""
        line = self.query_one(Input)
        if key.key == "enter":
            self.dismiss(line.value)
        elif key.is_printable and key.character:
            line.insert_text_at_cursor(key.character)
        else:
            return False
        return True

    def action_give_up(self) -> None:
        """Leaves it as it was."""
        self.dismiss(None)
