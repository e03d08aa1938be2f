# SPDX-License-Identifier: Apache-2.0
"""What load generators printed, real and of older formats (outputs/README.md), read to the last figure."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from ssllatency.load.figures import ClientReport, LoadError
from ssllatency.load.tools.choice import TOOLS
from ssllatency.load.tools.reading import number, seconds, size

OUTPUTS = Path(__file__).parent / "outputs"
CLOSE = ("-H", "Connection: close")


def text_of(name: str) -> str:
    (file,) = OUTPUTS.glob(f"*/{name}.txt")
    return file.read_text()


def read(name: str, command: tuple[str, ...] = ()) -> ClientReport:
    tool = name.split("-")[1]
    return TOOLS[{"wrk2": "wrk"}.get(tool, tool)].parse(text_of(name), command)


def values(report: ClientReport) -> dict[str, float]:
    return {figure.name: figure.value for figure in report.figures}


def connections(report: ClientReport) -> tuple[int, int | None] | None:
    return (report.connections.least, report.connections.most) if report.connections else None


def test_s_time_of_new_connections() -> None:
    report = read("real-s_time-new")
    assert values(report) == {
        "connections": 357,
        "user CPU": 0.30,
        "connections per user second": 1190.0,
        "bytes": 71400,
        "real": 3,
        "bytes a connection": 200,
        "resumed": 0,
    }
    assert connections(report) == (357, 357)


def test_s_time_of_reused_connections_made_one_more() -> None:
    report = read("real-s_time-reuse")
    assert (values(report)["connections"], values(report)["resumed"]) == (893, 893)
    assert connections(report) == (894, 894)


@pytest.mark.parametrize(
    ("name", "new", "reused", "resumed"), [("real-s_time-both", 698, 515, 0), ("old-s_time-1.0.1", 24, 40, 40)]
)
def test_s_time_of_both(name: str, new: int, reused: int, resumed: int) -> None:
    report = read(name)
    found = values(report)
    assert (found["connections (new)"], found["connections (reused)"], found["resumed (reused)"]) == (new, reused, resumed)
    assert connections(report) == (new + reused + 1, new + reused + 1)
    assert any("never resumed" in caveat for caveat in report.caveats) == (not resumed)


def test_s_time_is_told_of_www_only_where_it_lacks_it() -> None:
    """A page may be empty, or the server may give no session."""
    for words, told in ((("-reuse",), True), (("-www", "/", "-reuse"), False), (("--www", "/", "-reuse"), False)):
        report = read("real-s_time-both", ("openssl", "s_time", *words))
        assert any("add -www" in caveat for caveat in report.caveats) == told


def test_s_time_that_was_interrupted_has_its_marks() -> None:
    report = read("real-s_time-interrupted")
    assert values(report) == {"connections": 223, "resumed": 0}
    assert connections(report) == (223, 224)


def test_s_time_without_its_first_connection_has_no_session() -> None:
    text = text_of("real-s_time-reuse")
    report = TOOLS["s_time"].parse(text[: text.index("starting")])
    assert connections(report) == (0, 1)
    assert connections(TOOLS["s_time"].parse(text[: text.index("starting") + 9])) == (1, 2)


def test_results_of_s_time_without_the_rest() -> None:
    report = read("old-s_time-results")
    assert values(report)["connections per user second"] == 100.0
    assert "resumed" not in values(report)


def test_s_time_without_a_connection() -> None:
    found = values(read("old-s_time-none"))
    assert found["connections"] == 0
    assert "connections per user second" not in found


def test_marks_that_were_cut_are_not_counted() -> None:
    text = text_of("real-s_time-reuse").replace("rrrr", "r", 1)
    assert "resumed" not in values(TOOLS["s_time"].parse(text))


def test_h2load() -> None:
    report = read("real-h2load-h1")
    assert values(report) == {
        "elapsed": 0.05748,
        "requests a second": 3479.53,
        "received a second": 713297.92,
        "requests": 200,
        "done": 200,
        "succeeded": 200,
        "failed": 0,
        "errored": 0,
        "timed out": 0,
        "bytes": 41000,
        "body bytes": 12800,
        "request, min": 0.000148,
        "request, mean": 0.00186,
        "request, sd": 0.00276,
        "request, max": 0.01526,
        "connect, min": 0.00417,
        "connect, mean": 0.01659,
        "connect, sd": 0.00895,
        "connect, max": 0.02828,
        "first byte, min": 0.01857,
        "first byte, mean": 0.02634,
        "first byte, sd": 0.00562,
        "first byte, max": 0.03223,
    }
    assert report.facts == {
        "protocol": "TLSv1.3",
        "cipher": "TLS_AES_128_GCM_SHA256",
        "key exchange": "X25519 253 bits",
        "application protocol": "http/1.1",
    }
    assert connections(report) == (10, 210)


def test_h2load_with_a_connection_a_request() -> None:
    report = read("real-h2load-close", CLOSE)
    assert connections(report) == (200, 200)
    assert "bytes" not in values(report)  # it prints 0B then
    assert any("last one of each client" in caveat for caveat in report.caveats)


def test_h2load_keeps_connections_of_http_2_whatever_it_says() -> None:
    text = text_of("real-h2load-close").replace("http/1.1", "h2")
    report = TOOLS["h2load"].parse(text, CLOSE)
    assert connections(report) == (10, 210)
    assert report.offers_sessions is None
    assert not any("last one of each client" in caveat for caveat in report.caveats)
    assert read("real-h2load-close", CLOSE).offers_sessions


def test_h2load_for_a_time_does_not_know_its_connects() -> None:
    report = read("real-h2load-duration")
    assert values(report)["requests"] == 18501
    assert not {name for name in values(report) if name.startswith(("connect", "first byte"))}
    assert connections(report) == (4, None)


def test_h2load_for_a_time_that_was_too_short_for_its_connects() -> None:
    """Three answers may all have come by one connection."""
    text = text_of("real-h2load-duration")
    for done, least in ((4, 4), (3, 1), (0, 0)):
        assert connections(TOOLS["h2load"].parse(text.replace("18501", str(done)))) == (least, None)


def test_h2load_that_nobody_answered() -> None:
    found = values(read("real-h2load-refused"))
    assert (found["done"], found["errored"]) == (0, 4)
    assert not {name for name in found if "," in name}


def test_h2load_that_was_interrupted() -> None:
    report = read("real-h2load-interrupted")
    assert report.figures == ()
    assert report.facts["protocol"] == "TLSv1.3"
    assert report.connections is None


def test_h2load_with_its_time_in_words() -> None:
    found = values(read("old-h2load-0.6"))
    assert found == {
        "elapsed": 1.2505,
        "requests a second": 799,
        "received a second": 416 * 1024,
        "requests": 1000,
        "done": 1000,
        "succeeded": 990,
        "failed": 10,
        "errored": 0,
        "bytes": 533000,
        "body bytes": 512000,
    }


def test_h2load_with_request_times_only() -> None:
    report = read("old-h2load-1.0")
    assert {name for name in values(report) if "," in name} == {"request, min", "request, mean", "request, sd", "request, max"}
    assert connections(report) == (500, 2000500)


def test_h2load_without_first_byte() -> None:
    report = read("old-h2load-1.3")
    assert (values(report)["connect, mean"], values(report)["timed out"]) == (0.025, 1)
    assert not {name for name in values(report) if name.startswith("first byte")}
    assert report.facts["application protocol"] == "h2"


def test_h2load_with_percentiles() -> None:
    report = read("old-h2load-percentiles")
    assert report.percentiles == {
        "request": {95: 0.007, 99: 0.008},
        "connect": {95: 0.006, 99: 0.006},
        "first byte": {95: 0.008, 99: 0.008},
    }
    assert (values(report)["connect, median"], values(report)["connect, mean"]) == (0.005, 0.005)


def test_ab() -> None:
    report = read("real-ab-new")
    found = values(report)
    assert report.version == "2.3"
    assert (found["requests"], found["failed"], found["elapsed"], found["time a request"]) == (200, 0, 0.657, 0.03287)
    assert {name: value for name, value in found.items() if name.startswith("connect,")} == {
        "connect, min": 0.002,
        "connect, mean": 0.016,
        "connect, sd": 0.009,
        "connect, median": 0.016,
        "connect, max": 0.043,
    }
    assert (found["processing, mean"], found["waiting, mean"], found["total, mean"]) == (0.016, 0.014, 0.032)
    percents = {50: 32, 66: 36, 75: 40, 80: 41, 90: 47, 95: 52, 98: 56, 99: 64, 100: 65}
    assert report.percentiles == {"total": {percent: time / 1e3 for percent, time in percents.items()}}
    assert report.facts == {
        "protocol": "TLSv1.3",
        "cipher": "TLS_AES_256_GCM_SHA384",
        "server key": "2048 bits",
        "key exchange": "X25519 253 bits",
        "server": "nginx",
    }
    assert connections(report) == (200, 210)


def test_ab_with_kept_connections() -> None:
    report = read("real-ab-keep")
    assert values(report)["kept alive"] == 200
    assert connections(report) == (10, 20)


def test_ab_without_percentiles_and_deviations() -> None:
    report = read("real-ab-nopercent")
    assert (values(report)["connect, mean"], values(report)["total, max"]) == (0.004, 0.011)
    assert "connect, sd" not in values(report)
    assert report.percentiles == {}


def test_ab_counts_failed_connections_as_complete() -> None:
    report = read("real-ab-refused")
    assert values(report)["requests"] == 4
    assert not {name for name in values(report) if "," in name}
    assert any("read nothing" in caveat for caveat in report.caveats)
    assert connections(report) == (0, 5)


def test_ab_whose_numbers_contradict_one_another_tells_no_connections() -> None:
    text = text_of("real-ab-keep")
    assert TOOLS["ab"].parse(text).connections
    assert TOOLS["ab"].parse(re.sub(r"(Keep-Alive requests: +)\d+", r"\g<1>99999999", text)).connections is None


def test_ab_of_old() -> None:
    found = values(read("old-ab-1.3"))
    assert (found["connect, mean"], found["processing, mean"], found["total, max"]) == (0.029, 0.124, 1.36)
    assert "time a request" not in found
    report = read("old-ab-2.2")
    assert (values(report)["not 2xx"], values(report)["write errors"], values(report)["failed"]) == (3, 1, 4)
    assert (report.facts["protocol"], report.facts["server key"]) == ("TLSv1/SSLv3", "1024 bits")
    assert connections(report) == (46, 55)


def test_wrk() -> None:
    report = read("real-wrk-keep")
    assert values(report) == {
        "requests": 30855,
        "elapsed": 2.05,
        "requests a second": 15065.62,
        "bytes": 6322913.28,
        "received a second": 3093299.2,
        "latency, mean": 0.0026,
        "latency, sd": 0.0042,
        "latency, max": 0.03213,
        "requests a second a thread": 7650,
    }
    assert report.percentiles == {}
    assert connections(report) == (10, 30865)


def test_wrk_with_a_connection_a_request() -> None:
    report = read("real-wrk-close", CLOSE)
    assert report.percentiles == {"latency": {50: 0.0044, 75: 0.0088, 90: 0.01211, 99: 0.02014}}
    assert connections(report) == (570, 574)


def test_wrk_that_ended_before_all_had_connected() -> None:
    """Nine answers may all have come by one connection."""
    text = text_of("real-wrk-keep")
    for requests, least in ((10, 10), (9, 1), (0, 0)):
        assert connections(TOOLS["wrk"].parse(text.replace("30855", str(requests)))) == (least, requests + 10)


def test_wrk_that_failed_has_no_latency() -> None:
    report = read("real-wrk-plain-port")
    assert (values(report)["requests"], values(report)["connect errors"]) == (0, 967)
    assert report.percentiles == {}
    assert not {name for name in values(report) if name.startswith("latency")}
    assert values(read("real-wrk-404"))["not 2xx or 3xx"] == 10229


def test_wrk_of_old() -> None:
    report = read("old-wrk-3")
    assert values(report)["latency, max"] == 115.2
    assert values(report)["elapsed"] == 120
    assert [values(report)[name] for name in ("connect errors", "read errors", "write errors", "timeouts")] == [1, 2, 3, 4]


def test_wrk2_has_two_latencies() -> None:
    report = read("old-wrk2")
    assert report.facts["variant"] == "wrk2"
    assert report.percentiles["latency"][99.999] == 0.0125
    assert report.percentiles["uncorrected latency"] == {
        50: 0.00018, 75: 0.0003, 90: 0.00044, 99: 0.0012, 99.9: 0.002, 99.99: 0.0025, 99.999: 1.5, 100: 120,
    }  # fmt: skip
    assert connections(report) == (100, 60118)


NAMES = sorted(path.stem for path in OUTPUTS.glob("*/*.txt"))


@pytest.mark.parametrize("tool", TOOLS)
def test_another_tool_s_output_is_refused(tool: str) -> None:
    others = [name for name in NAMES if {"wrk2": "wrk"}.get(name.split("-")[1], name.split("-")[1]) != tool]
    assert others
    for text in (*map(text_of, others), "", "\x00\xff", "<html>"):
        with pytest.raises(LoadError, match="isn't the output of"):
            TOOLS[tool].parse(text)


def test_html_of_ab_is_refused_by_its_option() -> None:
    with pytest.raises(LoadError, match="leave its -w out"):
        TOOLS["ab"].parse("<table ><tr ><th>Complete requests:</th></tr></table>")


@pytest.mark.parametrize("name", NAMES)
def test_an_output_cut_anywhere_is_read_or_refused(name: str) -> None:
    """A run can end at any byte: what is read then is a part of the whole, and nothing else goes wrong."""
    text, whole = text_of(name), set(values(read(name)))
    tool = {"wrk2": "wrk"}.get(name.split("-")[1], name.split("-")[1])
    for end in range(0, len(text), 7):
        try:
            report = TOOLS[tool].parse(text[:end])
        except LoadError:
            continue
        if tool != "s_time":  # whose marks count until the results are there
            assert set(values(report)) <= whole


@pytest.mark.parametrize("tool", TOOLS)
def test_numbers_that_are_none(tool: str) -> None:
    """Each number of each output replaced by what C prints for none: no figure is one."""
    for name in NAMES:
        if {"wrk2": "wrk"}.get(name.split("-")[1], name.split("-")[1]) == tool:
            for none, digits in itertools.product(("-nan", "inf"), ("1", "2")):
                try:
                    report = TOOLS[tool].parse(text_of(name).replace(digits, none))
                except LoadError:
                    continue
                assert all(value == value and abs(value) < 1e18 for value in values(report).values())


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("odd", ["9" * 400, "9" * 5000, "1.2.3", "7" * 20, "-5", "\N{ARABIC-INDIC DIGIT FIVE}"])
def test_numbers_that_no_tool_could_print(tool: str, odd: str) -> None:
    """Each number of each output replaced by one that can't be: read without it, or refused."""
    for name in NAMES:
        if {"wrk2": "wrk"}.get(name.split("-")[1], name.split("-")[1]) == tool:
            text = text_of(name)
            for number_there in dict.fromkeys(re.findall(r"\d[\d.]*", text)):
                try:
                    report = TOOLS[tool].parse(text.replace(number_there, odd))
                except LoadError:
                    continue
                assert all(0 <= value <= 1e18 for value in values(report).values())
                assert not any(str(value).startswith("99999") for value in values(report).values()), "a part of a number"
                assert all(0 <= share <= 100 for times in report.percentiles.values() for share in times)


def test_units() -> None:
    assert [seconds(text) for text in ("104us", "1.36ms", "2.00s", "1.50m", "2h", "12ns")] == [
        0.000104, 0.00136, 2.0, 90.0, 7200.0, 1.2e-08,
    ]  # fmt: skip
    assert [seconds(text) for text in ("", "-nan", "inf", "5", "5 parsecs", "..s", "1.2.3s")] == [None] * 7
    assert [number(text) for text in ("7.65k", "1.2M", "41000", "-nan%", "nan")] == [7650, 1_200_000, 41000, None, None]
    assert [size(text) for text in ("6.03MB", "111.33KB", "0.00B", "41000", "12 bytes")] == [
        6322913.28,
        114001.92,
        0,
        41000,
        12,
    ]
