# SPDX-License-Identifier: Apache-2.0
"""Reads a condition:

    CONDITION  = CHAIN { "or" CHAIN }
    CHAIN      = COMPARISON { "and" COMPARISON }
    COMPARISON = SUBJECT [FIGURE] (">" | ">=" | "<" | "<=") VALUE ["for" TIME]

A `for` is also that of the comparisons before it in its chain that have none of their own. What can't be read is refused with
the place marked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import NoReturn

from ssllatency.data_class import dataclass
from ssllatency.errors import SsllatencyError, did_you_mean
from ssllatency.units import duration_of
from ssllatency.watch.condition import OPERATORS, Condition, Threshold
from ssllatency.watch.metrics import Metric, MetricFigure, MetricSubject, Subjects, Unit, figure_of, subject_of

_TOKEN = re.compile(
    r"(?P<word>[A-Za-z]\w*(?:(?:\.|::)\w+)*)|(?P<number>[\d.][\w.%/]*|%|/s)|(?P<operator>[<>]=?|=+|!=)|(?P<odd>\S)", re.ASCII
)
_LONGEST, _MOST = 1000, 16  # characters, comparisons
_LONGEST_OVER_S = 600.0
_NUMBER = r"\d{1,12}(?:\.\d{1,9})?"
_WHAT_THERE_IS = "handshake, failure, abandoned, resumed, private key, wait peer, SSL_read and so on"


class ConditionError(SsllatencyError):
    """A condition is wrong: the text says how, and where."""

    def __init__(self, sentence: str, text: str, start: int, end: int) -> None:
        super().__init__(f"{sentence.rstrip('.')}:", 2)
        shown = "".join(character if character.isascii() and character.isprintable() else "?" for character in text)
        self.excerpt = (f"  {shown}", f"  {' ' * start}{'^' * max(1, end - start)}")


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


def parse(text: str, subjects: Subjects, *, over: bool = True) -> Condition:
    """The condition in the text, about these subjects; without `over` there may be no `for`. ConditionError for any other."""
    if len(text) > _LONGEST:
        raise ConditionError(f"a condition has at most {_LONGEST} characters", text[:60] + "...", 0, 1)
    return _Parser(text, subjects, over=over).condition()


class _Parser:
    """Goes through the words of one condition."""

    def __init__(self, text: str, subjects: Subjects, *, over: bool) -> None:
        self._text, self._subjects, self._over = re.sub(r"\s", " ", text), subjects, over
        matches = _TOKEN.finditer(self._text)
        self._tokens = [_Token(str(match.lastgroup), match[0], match.start(), match.end()) for match in matches]
        self._tokens.append(_Token("end", "", len(self._text), len(self._text) + 1))
        self._at = self._number = 0
        self._most_words = max((len(name.split()) for name in subjects), default=1)

    def condition(self) -> Condition:
        alternatives = [self._chain()]
        while self._accept("or"):
            alternatives.append(self._chain())
        if self._next.kind != "end":
            self._refuse_rest()
        return Condition(self._text.strip(), tuple(alternatives))

    def _refuse_rest(self) -> NoReturn:
        if self._next.text in ("(", ")"):
            self._fail("there are no parentheses: `and` joins before `or` does")
        expected = "`and`, `or` or `for`" if self._over else "`and` or `or`"
        self._fail(f"expected {expected}, or the end")

    def _chain(self) -> tuple[Threshold, ...]:
        chain = [self._comparison()]
        while self._accept("and"):
            chain.append(self._comparison())
        return _with_over(chain)

    def _comparison(self) -> Threshold:
        self._number += 1
        if self._number > _MOST:
            self._fail(f"a condition has at most {_MOST} comparisons")
        metric = self._metric()
        if self._next.text not in OPERATORS:
            self._fail(f"expected one of {', '.join(OPERATORS)}")
        sign = self._take().text
        limit = self._value(metric.figure)
        return Threshold(metric, sign, limit, self._over_s() if self._next.text == "for" else None)

    def _metric(self) -> Metric:
        subject = self._subject()
        if self._next.kind == "word":
            figure = figure_of(subject, self._next.text.replace(".", ""))
            if figure is None:
                self._refuse_figure(subject)
            self._take()
            return Metric(subject, figure)
        figure = figure_of(subject, subject.default) if subject.default else None
        if figure is None:
            self._fail(f"name a figure of {subject.name}: {', '.join(subject.figures)}")
        return Metric(subject, figure)

    def _subject(self) -> MetricSubject:
        """By as many words as possible, which may be joined by _ as in JSON."""
        tokens = takewhile(lambda token: token.kind == "word", self._tokens[self._at : self._at + self._most_words])
        words = [token.text for token in tokens]
        for number in range(len(words), 0, -1):
            name = " ".join(words[:number])
            subject = subject_of(self._subjects, name) or subject_of(self._subjects, name.replace("_", " "))
            if subject:
                self._at += number
                return subject
        return self._refuse_subject(words)

    def _refuse_subject(self, words: Sequence[str]) -> NoReturn:
        if not words:
            self._fail(f"expected a measure: {_WHAT_THERE_IS}")
        first = did_you_mean(words[0], {name.split()[0] for name in self._subjects})
        no_functions = [name for name in self._subjects if "_" not in name]
        meant = did_you_mean(" ".join(words[:2]), no_functions) or first or f"there are {_WHAT_THERE_IS}"
        self._fail(f"{words[0]} isn't a measure: {meant.rstrip()}")

    def _refuse_figure(self, subject: MetricSubject) -> NoReturn:
        meant = did_you_mean(self._next.text, subject.figures)
        self._fail(f"{subject.name} has no {self._next.text}: {meant or 'it has '}{', '.join(subject.figures)}")

    def _value(self, figure: MetricFigure) -> float:
        first = self._next
        if first.kind != "number":
            self._fail(f"expected {figure.unit.value}")
        text = self._take().text
        if self._next.start > first.end and re.fullmatch(_NUMBER, text) and self._is_unit(figure.unit):
            text += self._take().text
        value = _value_of(text, figure.unit)
        if value is None:
            self._fail(f"{figure.name} is {figure.unit.value}", first, self._tokens[self._at - 1])
        return value

    def _is_unit(self, unit: Unit) -> bool:
        """Whether the next word is the unit of the number before it, as in "50 ms"."""
        return _value_of(f"1{self._next.text}", unit) is not None and self._next.kind in ("word", "number")

    def _over_s(self) -> float:
        if not self._over:
            self._fail("there is no `for` here: the figures are those of the whole run")
        self._take()
        first = self._next
        text = self._take().text if first.kind == "number" else ""
        if re.fullmatch(_NUMBER, text) and self._next.kind == "word" and duration_of(f"1{self._next.text}"):
            text += self._take().text
        over_ns = duration_of(text)
        if over_ns is None or not 1e9 <= over_ns <= _LONGEST_OVER_S * 1e9:
            self._fail("expected a time from 1s to 10m", first, first)
        return over_ns / 1e9

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _accept(self, word: str) -> bool:
        accepted = self._next.text == word
        self._at += accepted
        return accepted

    def _fail(self, sentence: str, first: _Token | None = None, last: _Token | None = None) -> NoReturn:
        raise ConditionError(sentence, self._text, (first or self._next).start, (last or self._next).end)


def _with_over(chain: Sequence[Threshold]) -> tuple[Threshold, ...]:
    """Each comparison without a time has that of the next one in the chain that has one."""
    over_s, comparisons = None, []
    for comparison in reversed(chain):
        over_s = over_s if comparison.over_s is None else comparison.over_s
        comparisons.append(replace(comparison, over_s=over_s))
    return tuple(reversed(comparisons))


def _value_of(text: str, unit: Unit) -> float | None:
    if unit is Unit.TIME:
        return duration_of(text)
    pattern = {Unit.SHARE: rf"({_NUMBER})(%?)", Unit.RATE: rf"({_NUMBER})((?:/s)?)", Unit.COUNT: r"(\d{1,12})()"}[unit]
    match = re.fullmatch(pattern, text, re.ASCII)
    if not match:
        return None
    value = float(match[1]) / (100 if match[2] == "%" else 1)
    return value if unit is not Unit.SHARE or value <= 1 else None
