# SPDX-License-Identifier: Apache-2.0
"""The examples that have a transcript: in their short form they still print what it shows, but for the numbers, and the numbers
say what the example is there to show."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from tests import programs
from tests.live.shipped.test_demo import left_behind

pytestmark = pytest.mark.usefixtures("tracing")
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
# What follows from the numbers: what a diagnosis says, what a load tool's units are, and which machine it was.
_VARYING = (
    (r"==> .*?\n\n", ""),
    (r"\n +\d+ waits not split, .*", ""),
    (r"\n +\d+ handshakes? whose calls slept .*(?:\n {4,}.*)*", ""),  # for a lock, as may happen on a busy machine
    (r"\n +\d+ handshakes? whose peer's bytes came .*(?:\n {4,}.*)*", ""),
    (r"^ +(?:round trips|before: \w+|queue|in handshakes|in other work|no processor|CPU quota|asleep) +\d.*\n", ""),
    (r"^ +(?:\((?:on|off) CPU\)|ready to run|rest asleep|losses|peer gone) +\d.*\n", ""),
    (r"^Network and resumption: .*\n(?:[ ].*\n)*\n?", ""),
    (r"^Certificate of .*\n(?:[ ].*\n)*\n?", ""),  # wrapped where its numbers end
    (r"^Lost or uncertain:\n\n", ""),  # nothing else
    # Who else maps the libraries, in the words of any version.
    (r"^(?:ssllatency|Note): (?:The probes cost )?\d+ other process.*\n(?:[ ].*\n)*\n?", ""),
    (r"^(?:Cost of tracing|Processes that aren't traced|BPF programs at tracepoints)\b.*\n(?:[ ].*\n)*\n?", ""),
    (r"^OpenSSL .* processors$", "OpenSSL, Linux, processors"),
    (r"^\S+, kernel \S+, (.*) from \S+$", r"host, kernel, \1"),
    (r"\|[▞█▓▤▥▒·:░○]+\|", "|bar|"),
    (r"\b1 completion\b", "1 completions"),  # of a thread that polled little
    (r"<?\d[\d.]*", "0"),
    (r"0 ?(ns|us|ms|s)\b", "0 s"),
    (r"0[KMG]?B/s", "0B/s"),
)
# What comes about by chance: who waits for whom, and whether two runs differ in more than their times.
_PERHAPS = {
    "wait: peer",
    "wait: application",
    "round trips",
    "queue: server",
    "before: ClientHello",
    "before: queue",
    "queue",
    "in handshakes",
    "in other work",
    "no processor",
    "asleep",
    "(off CPU)",
    "ready to run",
    "rest asleep",
    "losses",
    "(peer gone)",
    "peer gone",
    "wait: peer or server",
    "wait: peer window",
    "wait: unknown",
    "Of that, in calls",
    "Different",
    "Lost or uncertain",
    "Note",
    "Cost of tracing",
}
# What each report has near its end.
_COST = re.compile(
    r"^Cost of tracing: [\d.<]+ % of the (?:traced processes|targets)' CPU time\s+\(excluding\s+cache\s+effects\)",
    re.MULTILINE,
)
Rows = dict[str, dict[str, str]]


def ran(example: str, folder: Path) -> str:
    """What its short form prints; it must leave nothing behind."""
    command, environment = [EXAMPLES / example / "run", "--short"], os.environ | {"TMPDIR": str(folder)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stderr
    assert left_behind(folder) == []
    assert len(_COST.findall(done.stdout)) == len(re.findall(r"^Traced: ", done.stdout, re.MULTILINE)) > 0
    return done.stdout


def transcript(example: str) -> str:
    return (EXAMPLES / example / "transcript.txt").read_text()


def shape(text: str) -> list[str]:
    """The fields of its lines, without numbers; what is said several times in a row, once."""
    for pattern, instead in _VARYING:
        text = re.sub(pattern, instead, text, flags=re.DOTALL if pattern.startswith("==>") else re.MULTILINE)
    fields = [field for line in text.splitlines() for field in re.split(r" {2,}", line.strip()) if field]
    return fields[:1] + [after for before, after in pairwise(fields) if after != before]


def sections(text: str) -> dict[str, str]:
    """What stands under each title."""
    parts = re.split(r"^### (.*)\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def names(section: str) -> set[str]:
    """What its tables have rows and columns for, and what its paragraphs are headed by."""
    headings = re.findall(r"^  [A-Z]{3}[A-Z 0-9%]*$", section, re.MULTILINE)
    rows = re.findall(r"^ {2,6}([a-z].*?) {2,}\S", section, re.MULTILINE)
    paragraphs = re.findall(r"^([A-Z][a-z ]+):", section, re.MULTILINE)
    return {re.sub(r" +", " ", each).strip() for each in (*headings, *rows, *paragraphs)} - _PERHAPS


def table(text: str) -> Rows:
    """The runs side by side, by name and column."""
    head, *rows = (re.split(r" {2,}", line) for line in sections(text)["Side by side"].split("\n\n")[0].splitlines())
    return {row[0]: dict(zip(head, row, strict=True)) for row in rows}


def checked(example: str, folder: Path) -> Rows:
    """The short form's table, once each of its sections has what that of the transcript has."""
    text = ran(example, folder)
    shown, expected = sections(text), sections(transcript(example))
    assert shown.keys() <= expected.keys()
    for title in shown.keys() - {"Side by side"}:
        assert names(shown[title]) == names(expected[title]), title
    found = table(text)
    assert next(iter(found.values())).keys() == next(iter(table(transcript(example)).values())).keys()
    return found


def resumed(row: dict[str, str]) -> float:
    return int(row["RESUMED"]) / int(row["HANDSHAKES"])


def batch_functions(section: str) -> set[str]:
    """The functions of libcrypto_mb that worked in it."""
    return set(re.findall(r"^ +(mbx_\w+): \d+ calls", section, re.MULTILINE))


def test_async_gain(tmp_path: Path) -> None:
    """What qatengine does follows on CPUs that can, as the transcript's."""
    title = "### RSA-2048, plain, in Debian 13 with P-256\n"
    text, _, in_batches = ran("async-gain", tmp_path).partition(title)
    expected, _, expected_batches = transcript("async-gain").partition(title)
    if in_batches:
        assert len(re.findall(r"^1000 handshakes in .*: 1000 successful", in_batches, re.MULTILINE)) == 4
        batches, shown = sections(title + in_batches), sections(title + expected_batches)
        assert {name: batch_functions(batches[name]) for name in batches} == {
            name: batch_functions(shown[name]) for name in shown
        }
        assert batch_functions(shown["RSA-2048, qatengine"])
    assert shape(text) == shape(expected)
    succeeded = re.findall(r", (\d+) succeeded", text)
    assert succeeded == re.findall(r"^(\d+) handshakes in .*: \1 successful", text, re.MULTILINE)
    assert [int(number) for number in succeeded] == 4 * [1000]


def test_sessions(tmp_path: Path) -> None:
    runs = checked("sessions", tmp_path)
    for version in ("1.2", "1.3"):
        assert resumed(runs[f"{version}-new"]) == 0
        assert resumed(runs[f"{version}-reuse"]) >= 0.95


def test_session_store(tmp_path: Path) -> None:
    """Resumed is only what the store has and the client offers."""
    programs.needed("apache2", "redis-server", "redis-cli")
    runs = checked("session-store", tmp_path)
    for name in ("off-ab", "off-reuse", "on-ab"):
        assert resumed(runs[name]) == 0
        assert int(runs[name]["HANDSHAKES"]) > 0
    assert resumed(runs["on-reuse"]) >= 0.95


def test_http_https_h2(tmp_path: Path) -> None:
    """A handshake for each request, or one for each connection."""
    runs = checked("http-https-h2", tmp_path)
    assert int(runs["https-close"]["HANDSHAKES"]) == 500
    for name in ("https-kept", "h2"):
        assert int(runs[name]["HANDSHAKES"]) == 10
    assert runs["https-kept"]["SSL_read"] == runs["https-kept"]["SSL_write"] == "500"
    assert int(runs["h2"]["SSL_read"]) < 500
    assert all(runs[name]["HANDSHAKES"] == "-" for name in ("http-close", "http-kept"))


def test_client_certificates(tmp_path: Path) -> None:
    runs = checked("client-certificates", tmp_path)
    given = {"want-ECDSA": "given", "want-none": "not given", "need-none": "not given"}
    assert given.keys() < runs.keys()
    for name, row in runs.items():
        value = given.get(name, "not asked")
        assert row["CLIENT CERTIFICATE"] == f"{value} {row['HANDSHAKES']}"
        assert (row["PEER VERIFICATION"] != "-") == (value == "given")
        assert 100 <= int(row["HANDSHAKES"]) <= 101


def test_tomcat(tmp_path: Path) -> None:
    """Resumed is what has tickets or a cache, and each handshake ends within SSL_read."""
    programs.needed("java")
    runs = checked("tomcat", tmp_path)
    assert resumed(runs["off-1.2-reuse"]) == 0
    for row in (runs["tickets-1.2-reuse"], runs["cache-1.2-reuse"]):
        assert resumed(row) >= 0.95
    for row in runs.values():
        assert int(row["HANDSHAKES"]) > 0
        assert row["SSL_do_handshake"] == "-"
        assert int(row["SSL_read"]) >= int(row["HANDSHAKES"])


def test_tomcat_with_java_s_own_tls(tmp_path: Path) -> None:
    """As many handshakes of each connector as its client counted."""
    programs.needed("java")
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [EXAMPLES / "tomcat" / "jsse", "--short"], env=environment, capture_output=True, text=True, check=False, timeout=180
    )
    assert done.returncode == 0, done.stderr
    assert left_behind(tmp_path) == []
    shown, expected = sections(done.stdout), sections((EXAMPLES / "tomcat" / "jsse.txt").read_text())
    assert list(shown) == list(expected)
    for title, section in shown.items():
        made, counted = int(section.split("The client: ")[1].split()[0]), r"(\d+) handshakes (?:recorded|in)"
        assert made > 0
        assert re.findall(counted, section) == [str(made)], title
    steps = names(shown["Java's own TLS, TLS 1.3, s_time -new"])
    if "private key: TLS 1.3 signature" in steps:  # of JDK 25, as in the transcript
        assert steps == names(expected["Java's own TLS, TLS 1.3, s_time -new"])


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_example_leaves_nothing(tmp_path: Path, number: signal.Signals, status: int) -> None:
    # A shell that starts the tests in its background has SIGINT ignored, and the example would inherit that.
    command = ["env", "--default-signal=INT", EXAMPLES / "sessions" / "run", "--short"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as example:
        assert example.stdout
        for line in example.stdout:
            if line.startswith("###"):
                break
        example.send_signal(number)
        example.stdout.read()
        assert example.wait(20) == status
    assert left_behind(tmp_path) == []


def test_a_machine_that_may_not_trace_says_so(tmp_path: Path) -> None:
    command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", EXAMPLES / "sessions" / "run", "--short"]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "CAP_BPF" in done.stderr
    assert left_behind(tmp_path) == []


def test_matrix_prints_what_its_transcript_shows(tmp_path: Path, folder: Path) -> None:
    """Its plan word for word, and its table with the same effects."""
    command, environment = [EXAMPLES / "matrix" / "run", tmp_path / "runs.csv"], os.environ | {"TMPDIR": str(folder)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=240)
    transcript = (EXAMPLES / "matrix" / "transcript.txt").read_text()
    plan, table = (re.split(r"^Main effects:$", text, flags=re.MULTILINE) for text in (done.stdout, transcript))
    assert plan[0].splitlines()[1:] == table[0].splitlines()[1:]  # the first names the machine
    assert effects_shape(plan[1]) == effects_shape(table[1])
    assert (tmp_path / "runs.csv").read_text().count("\n") == 1 + 8 * 3
    assert left_behind(folder) == []


def effects_shape(table: str) -> list[str]:
    """Its words without the numbers."""
    numbers = re.sub(r"(?<![\w-])[-+]?\d[\d.]*(?!\d*[-\w])", "0", " ".join(table.split()))
    return re.sub(r"\b0 (us|ms)\b", "0 s", numbers).split()
