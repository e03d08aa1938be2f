# SPDX-License-Identifier: Apache-2.0
"""The recording rules and alerts: promtool's checks and their own tests, and each expression in a real Prometheus, before and
after two made-up hosts get into trouble."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from tests.parameters import slow_except
from tests.prometheus.exporters import exporters
from tests.prometheus.programs import SUITES, needed_program
from tests.prometheus.server import Server, prometheus, scraping
from tests.prometheus.traffic import Host

from ssllatency.export.formats import text
from ssllatency.export.metrics.families import FAMILIES

FOLDER = Path(__file__).resolve().parents[3] / "deploy" / "prometheus"
RULES, TESTS = FOLDER / "ssllatency.rules.yml", FOLDER / "ssllatency.rules.test.yml"
GROUPS = yaml.safe_load(RULES.read_text())["groups"]
RECORDED = {rule["record"]: rule["expr"] for group in GROUPS for rule in group["rules"] if "record" in rule}
ALERTS = {rule["alert"]: rule["expr"] for group in GROUPS for rule in group["rules"] if "alert" in rule}
# A real server has no day for a test: its windows and its past are seconds.
SHORTER = {"[5m]": "[3s]", "[1h]": "[2s]", "offset 1d": "offset 6s", "offset 1h": "offset 6s"}
STEP_S = 0.5
TROUBLE_S = 20.0  # the longest that it is waited for trouble to show
# Prometheus 2.42 refuses to record a histogram whose count differs from the sum of its buckets by rounding alone.
WHOLE = {name for name in RECORDED if name.endswith("_seconds:rate5m")}
NOT_RECORDED = {"sid": set(), "bookworm": WHOLE}


def shorter(text: str) -> str:
    """Expressions with windows that a test can wait for."""
    for duration, seconds in SHORTER.items():
        text = text.replace(duration, seconds)
    assert not re.search(r"(\[|offset )\d+[mhd]", text), "a duration that isn't in SHORTER"
    return text


def promtool(suite: str, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    program = needed_program("promtool", suite)
    return subprocess.run([program, *words], input=given, cwd=FOLDER, capture_output=True, check=False, timeout=120)


def test_each_alert_names_the_section_that_answers_it() -> None:
    """A heading that is there: one named a section under a heading of old."""
    alerts = [rule for group in GROUPS for rule in group["rules"] if "alert" in rule]
    for alert in alerts:
        page, _, anchor = alert["annotations"]["runbook"].partition("#")
        headings = re.findall(r"^#+ (.*)$", (FOLDER.parents[1] / page).read_text(), re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
        assert anchor in anchors, alert["alert"]


@pytest.mark.parametrize("suite", SUITES)
def test_promtool_finds_nothing_to_complain_of(suite: str) -> None:
    done = promtool(suite, "check", "rules", "--lint-fatal", RULES.name)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(RECORDED) + len(ALERTS)} rules found".encode() in done.stdout


@pytest.mark.slow
def test_their_own_tests_pass_and_there_is_one_for_each_alert() -> None:
    done = promtool("sid", "test", "rules", TESTS.name)
    assert done.returncode == 0, done.stdout + done.stderr
    tested = [case for test in yaml.safe_load(TESTS.read_text())["tests"] for case in test["alert_rule_test"]]
    assert {case["alertname"] for case in tested if case["exp_alerts"]} == ALERTS.keys()


@pytest.mark.parametrize("suite", SUITES)
def test_promtool_finds_nothing_to_complain_of_in_an_exposition(suite: str) -> None:
    done = promtool(suite, "check", "metrics", given=b"".join(text.pieces(Host("web1", 1).read(), open_metrics=False)))
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


def test_no_rule_rests_on_a_recorded_histogram() -> None:
    texts = {**RECORDED, **ALERTS}
    assert len(WHOLE) == 2
    assert [name for name, text in texts.items() if any(re.search(rf"{whole}\b", text) for whole in WHOLE)] == []


def test_they_read_metrics_that_are_exported() -> None:
    exported = {family.prometheus_name for family in FAMILIES}
    read = set(re.findall(r"(?<!:)\bssllatency_\w+\b(?!:)", " ".join((*RECORDED.values(), *ALERTS.values()))))
    assert read - exported == set()
    assert len(read) > 8
    named = set(re.findall(r"\b\w+:\w+:\w+", " ".join((*RECORDED.values(), *ALERTS.values()))))
    assert named <= RECORDED.keys()


@dataclass
class Scene:
    """A server with the rules, and when its hosts got into trouble."""

    server: Server
    trouble_s: float
    not_recorded: set[str]

    def when_well(self, text: str) -> bool:
        """Whether an expression had data before that. A scrape has the time at which it was asked for: what was asked for a
        second before was answered by then."""
        return bool(self.server.query_range(shorter(text), self.trouble_s - 3, self.trouble_s - 1, STEP_S))

    def in_trouble(self, text: str) -> bool:
        """Whether it has data once its window is full of trouble: where the machine is busy, scrapes are missed for a while."""
        deadline = time.monotonic() + TROUBLE_S
        while not self.server.query_range(shorter(text), self.trouble_s + 3.5, time.time() - 0.5, STEP_S):
            if time.monotonic() > deadline:
                return False
            time.sleep(STEP_S)
        return True


@pytest.fixture(scope="module", params=slow_except(SUITES))
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("rules")
    (folder / "rules.yml").write_text(shorter(RULES.read_text()))
    hosts = {"web1": Host("web1", 1), "web2": Host("web2", 2, most_series=100)}
    paths = {name: f"/metrics/{name}" for name in hosts}
    more = f"rule_files: [{folder}/rules.yml]"
    with exporters({paths[name]: host.read for name, host in hosts.items()}) as address:
        configuration = scraping(address, {**paths, "away": "/nothing"}, f"{STEP_S * 1000:.0f}ms", request.param, more)
        with prometheus(folder, configuration, request.param) as server:
            server.wait_for(lambda: bool(server.query("min(count_over_time(up[1m])) > 10 and count(up) == 3")))
            trouble_s = time.time()
            for host in hosts.values():
                host.troubled = True
            server.wait_for(lambda: time.time() > trouble_s + 6)
            yield Scene(server, trouble_s, NOT_RECORDED[request.param])


def test_every_recording_rule_records(scene: Scene) -> None:
    missing = {name for name in RECORDED if not (scene.when_well(name) and scene.in_trouble(name))}
    assert missing <= scene.not_recorded


def test_every_expression_of_a_recording_rule_has_data(scene: Scene) -> None:
    assert [text for text in RECORDED.values() if not (scene.when_well(text) and scene.in_trouble(text))] == []


# What is so from the beginning: one host isn't there, the other has no room for its series.
ALWAYS = {"TLSTracerDown", "TLSTracerOutOfSeries"}


def test_alerts_are_of_trouble_alone(scene: Scene) -> None:
    assert {name for name, text in ALERTS.items() if scene.when_well(text)} == ALWAYS
    assert {name for name, text in ALERTS.items() if scene.in_trouble(text)} == ALERTS.keys()


def test_the_server_itself_takes_the_rules(scene: Scene) -> None:
    groups = scene.server.get("/api/v1/rules")["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    refused = {rule["name"]: rule.get("lastError") for rule in rules if rule["health"] != "ok"}
    assert refused.keys() <= scene.not_recorded, refused
    assert len(rules) == len(RECORDED) + len(ALERTS)
