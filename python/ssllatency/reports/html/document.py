# SPDX-License-Identifier: Apache-2.0
"""The sections of a page, in the order in which an on-call engineer needs them, and their rendering."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ssllatency import __version__
from ssllatency.model.arithmetic.handshake_sums import total
from ssllatency.model.handshakes import PHASES, Group, Part, RequestedSide
from ssllatency.model.recording import Recording
from ssllatency.model.snapshot import Snapshot
from ssllatency.model.statistics.compare import compare
from ssllatency.model.statistics.comparison import Comparison
from ssllatency.reports.html import frame as html_frame
from ssllatency.reports.html import handshake_sections as html_handshakes
from ssllatency.reports.html.blocks import Block, Facts, FindingMark, FindingsBlock, PageSection, PlotBlock, Sentences, Tabular
from ssllatency.reports.html.findings import findings
from ssllatency.reports.html.offload import offload
from ssllatency.reports.html.over_time import over_time
from ssllatency.reports.html.plots.bars import Bar, bars
from ssllatency.reports.html.slowest import slowest
from ssllatency.reports.html.timeline import what_happened
from ssllatency.reports.html.words import name, sentence, typeset, visible
from ssllatency.reports.rows.handshakes.facts import facts_sentence
from ssllatency.reports.rows.parts import mean_ns, mostly_waits, shown_group
from ssllatency.reports.rows.sampling import phases_sentence
from ssllatency.reports.words.label_words import ADJECTIVES
from ssllatency.reports.words.parts import part_names

_MOST_HOSTS = 4
# What marks of findings look like: told apart without colour, too.
_SIGNS = {FindingMark.GOOD: "\u2713", FindingMark.LOOK: "!", FindingMark.BAD: "\u2717"}


def render(recording: Recording, before: Recording | None, comparison: Comparison | None = None) -> str:
    """The whole page; `comparison` as in html_page.page()."""
    comparison = comparison or (compare(before, recording) if before else None)
    whole, old = (comparison.after, comparison.before) if comparison else (recording.total(), None)
    sections = [section for section in _sections(recording, before, whole, comparison) if section]
    return (
        _environment()
        .get_template("page.html")
        .render(
            title=f"TLS latency of {_host(recording)}" + (": before and after" if old else ""),
            headlines=_headlines(recording, before, whole, old),
            sections=sections,
            signs=_SIGNS,
            version=__version__,
        )
    )


def _headlines(recording: Recording, before: Recording | None, whole: Snapshot, old: Snapshot | None) -> list[str]:
    """Return when each recording was made: a line each."""
    after = html_frame.headline(recording, whole)
    return [f"After: {after}", f"Before: {html_frame.headline(before, old)}"] if before and old else [after]


def _host(recording: Recording) -> str:
    hosts = recording.hosts
    return ", ".join(hosts) if len(hosts) <= _MOST_HOSTS else f"{len(hosts)} hosts"


def _environment() -> Environment:
    loader = PackageLoader("ssllatency.reports.html")
    environment = Environment(
        autoescape=True, loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_final
    )
    environment.filters["name"] = name
    environment.filters["sentence"] = sentence
    return environment


def _final(value: object) -> object:
    """Every text in the page passes through here."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else typeset(visible(value))


def _sections(
    recording: Recording, before: Recording | None, whole: Snapshot, comparison: Comparison | None
) -> Iterator[PageSection | None]:
    old = comparison.before if comparison else None
    group, former = _groups(whole, old)
    yield PageSection("findings", "Findings", [FindingsBlock(findings(whole, comparison))])
    if comparison is None:
        yield what_happened(recording)
    if group:
        yield _phases(group, former, comparison, _facts(whole, old if former else None), _names(whole))
    if whole.handshakes and whole.handshakes.groups:
        yield PageSection("endings", "How the handshakes ended", [Tabular(html_handshakes.endings(whole, old))])
    yield over_time(recording, before, whole, old)
    yield from _kinds(whole, old, group)
    yield _functions(whole, comparison)
    yield _unseen(whole)
    yield _measured(recording, before, whole, old)


def _groups(whole: Snapshot, old: Snapshot | None) -> tuple[Group | None, Group | None]:
    """The handshakes that the bars are of, and those before that ended alike."""
    group = shown_group(whole.handshakes) if whole.handshakes else None
    former = total(old.handshakes, group.ending) if group and old and old.handshakes else None
    return group, former


def _phases(
    group: Group, former: Group | None, comparison: Comparison | None, facts: list[str], parts: Mapping[Part, str]
) -> PageSection:
    names = ("After", "Before") if former else (f"Mean {ADJECTIVES[group.ending]} handshake",)
    groups = [group, former] if former else [group]
    shown = [Bar(name, mean_ns(averaged), parts) for name, averaged in zip(names, groups, strict=True)]
    title = f"Where the time of the mean {ADJECTIVES[group.ending]} handshake goes"
    blocks: list[Block] = [PlotBlock(bars("bars", shown, title, "Hatched pieces are waits."))]
    if mostly_waits(group):
        inner = [
            Bar(f"{name}, in calls", mean_ns(averaged, PHASES), parts) for name, averaged in zip(names, groups, strict=True)
        ]
        blocks.insert(1, PlotBlock(bars("calls", inner, "Of that, the time in calls", "The time in calls, drawn larger.")))
    blocks.append(Tabular(html_handshakes.parts(group, former, comparison, parts)))
    blocks += [Sentences(facts)] if facts else []
    return PageSection("phases", "Where the time goes", blocks)


def _names(whole: Snapshot) -> Mapping[Part, str]:
    return part_names(whole.handshakes.role if whole.handshakes else RequestedSide.SERVER)


def _facts(whole: Snapshot, old: Snapshot | None) -> list[str]:
    """The facts known of flights, losses and resumption; and what was before."""
    after, before = (facts_sentence(one.handshakes) if one and one.handshakes else "" for one in (whole, old))
    watched = phases_sentence(whole.handshakes) if whole.handshakes else ""
    return list(filter(None, (watched, after, before and f"Before: {before}")))


def _kinds(whole: Snapshot, old: Snapshot | None, group: Group | None) -> Iterator[PageSection | None]:
    handshakes, previous = whole.handshakes, old.handshakes if old else None
    if not handshakes or not group:
        return
    tables = [html_handshakes.keys(handshakes, previous), html_handshakes.mix(handshakes, previous)]
    tables += [html_handshakes.groups(handshakes, previous), html_handshakes.certificates(handshakes)]
    blocks: list[Block] = [Tabular(table) for table in tables if table.lines]
    unknown = html_handshakes.unknown(handshakes)
    blocks += [Sentences(unknown)] if unknown else []
    yield PageSection("kinds", "Keys and kinds of handshakes", blocks) if blocks else None
    if handshakes.offload:
        yield offload(whole, old)
    yield slowest(handshakes)


def _functions(whole: Snapshot, comparison: Comparison | None) -> PageSection | None:
    shown = html_frame.functions(whole, comparison)
    reasons = html_frame.reasons(whole)
    blocks: list[Block] = [Tabular(shown), *([Sentences(reasons)] if reasons else [])]
    return PageSection("functions", "Functions", blocks) if shown.lines else None


def _unseen(whole: Snapshot) -> PageSection:
    sentences = [*html_frame.unseen(whole), *([] if whole.targets else ["No process was traced."])]
    tables = [html_frame.targets(whole), html_frame.missing(whole.missing)]
    blocks: list[Block] = [Sentences(sentences), *(Tabular(table) for table in tables if table.lines)]
    return PageSection("unseen", "What was traced, and what was not seen", blocks)


def _measured(recording: Recording, before: Recording | None, whole: Snapshot, old: Snapshot | None) -> PageSection:
    """By what, on which machine, of each recording."""
    blocks = [Facts("After" if old else "", html_frame.facts(recording, whole))]
    blocks += [Facts("Before", html_frame.facts(before, old))] if before and old else []
    return PageSection("measured", "How it was measured", blocks)
