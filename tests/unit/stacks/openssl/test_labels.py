# SPDX-License-Identifier: Apache-2.0
"""Where labels lie: in libraries made for it, in those of other machines, and beside what running libraries' accessors say."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests import foreign
from tests.fixtures import build
from tests.parameters import slow_except

from ssllatency.elf.image import Image
from ssllatency.stacks.openssl.labels import FieldPath, label_paths
from ssllatency.stacks.openssl.signatures import code_point_offset

LAYOUTS = pytest.mark.parametrize("layout", [(), ("-DSINCE_3_2",)], ids=["up-to-3.1", "since-3.2"])
SIZES = {
    "version": 4, "in_init": 4, "hand_state": 4, "resumed": 4, "verify_mode": 4, "verify_result": 8, "ctx": 8, "session": 8,
    "cipher": 4, "peer_certificate": 8, "group_tls13": 2, "group_session": 2, "did_kex": 1, "signature": 2, "waitctx": 8,
    "server_name": 8, "server_name_session": 8, "alpn": 8, "alpn_length": 4, "hello_retry": 4,
    "max_version": 4, "options": 8, "certificate": 8, "chain": 8,
}  # fmt: skip
GROUP = {"group_tls13", "group_session", "did_kex"}


def made(folder: Path, style: str, *flags: str) -> tuple[Image, dict[str, tuple[int, ...]]]:
    """The library of labels.c, and where it says that they are, four numbers each."""
    path = build.library(folder, f"labels-{style}{''.join(flags)}.so", ["labels.c"], *build.STYLES[style], *flags)
    image = Image.open(build.stripped(path, f"stripped-{path.name}"))
    known = build.symbols(path)
    words = {name: [image.constant(known[f"place_{name}"].address + 8 * word, 8) for word in range(4)] for name in SIZES}
    return image, {name: tuple(number or 0 for number in numbers) for name, numbers in words.items()}


def padded(paths: dict[str, FieldPath]) -> dict[str, tuple[int, ...]]:
    return {name: (*path.offsets, *[0] * (4 - len(path.offsets))) for name, path in paths.items()}


@pytest.mark.parametrize("style", slow_except(build.STYLES, "plain"))
@LAYOUTS
def test_places_are_those_of_the_structures(folder: Path, style: str, layout: tuple[str, ...]) -> None:
    """Unoptimised, the group is taken in a function of its own, which isn't entered."""
    image, places = made(folder, style, *layout)
    absent = GROUP if style == "unoptimised" else set()
    paths = label_paths(image)
    assert padded(paths) == {name: place for name, place in places.items() if name not in absent}
    assert {name: path.size for name, path in paths.items()} == {name: SIZES[name] for name in SIZES if name not in absent}


@pytest.mark.parametrize("style", slow_except(build.STYLES, "plain"))
@LAYOUTS
def test_what_is_in_doubt_is_absent(folder: Path, style: str, layout: tuple[str, ...]) -> None:
    """A field of which a part is returned, one of two, another one's session, two groups, a table with an odd record, …"""
    image, places = made(folder, style, "-DDOUBTFUL", *layout)
    sure = ("version", "verify_result", "ctx", "session", "peer_certificate")
    assert padded(label_paths(image)) == {name: places[name] for name in sure}


def test_an_image_without_accessors_tells_nothing(shapes: Path) -> None:
    assert label_paths(Image.open(shapes)) == {}


def test_labels_of_missing_accessors_are_absent(folder: Path) -> None:
    image = Image.open(build.library(folder, "labels-accessors.so", ["accessors.c"]))
    assert {"version", "session", "resumed", "hand_state"} == set(label_paths(image))


# Libraries as they ship. These come from their debug information or, where there is none, from test_places_are_what_... below.

COMMON = {"hand_state": (92,), "in_init": (100,), "version": (0,)}
V1_1 = COMMON | {
    "resumed": (200,), "verify_mode": (1376,), "verify_result": (1456,), "ctx": (1440,), "session": (1296,),
    "cipher": (1296, 496, 24), "peer_certificate": (1296, 440), "signature": (168, 728, 8), "waitctx": (6160,),
    "server_name": (1600,), "server_name_session": (1296, 536), "alpn": (168, 992), "alpn_length": (168, 1000),
    "hello_retry": (1248,), "max_version": (1504,), "options": (1492,),
    "certificate": (1168, 0, 0), "chain": (1168, 0, 16),
}  # fmt: skip
V3_0 = COMMON | {
    "resumed": (1232,), "verify_mode": (2408,), "verify_result": (2488,), "ctx": (2472,), "session": (2328,),
    "cipher": (2328, 760, 24), "peer_certificate": (2328, 696), "signature": (896, 8), "waitctx": (7488,),
    "group_tls13": (1198,), "group_session": (2328, 776), "did_kex": (1197,),
    "server_name": (2648,), "server_name_session": (2328, 816), "alpn": (1160,), "alpn_length": (1168,), "hello_retry": (2280,),
    "max_version": (2552,), "options": (2536,), "certificate": (2200, 0, 0), "chain": (2200, 0, 16),
}  # fmt: skip
V3_5 = {
    "version": (72,), "hand_state": (172,), "in_init": (180,),
    "resumed": (1288,), "verify_mode": (2384,), "verify_result": (2456,), "ctx": (8,), "session": (2304,),
    "cipher": (2304, 760, 24), "peer_certificate": (2304, 704), "signature": (976, 16), "waitctx": (5424,),
    "group_tls13": (1246,), "group_session": (2304, 776), "did_kex": (1245,),
    "server_name": (2592,), "server_name_session": (2304, 800), "alpn": (1208,), "alpn_length": (1216,), "hello_retry": (2256,),
    "max_version": (2496,), "options": (2480,), "certificate": (2176, 0, 0), "chain": (2176, 0, 16),
}  # fmt: skip
GOLDEN = {
    "libssl-1.1-x86-64": V1_1,
    "libssl-1.1-arm64": V1_1,
    "libssl-3.0-arm64": V3_0,
    "libssl-3.5-x86-64": V3_5,
    "libssl-3.5-arm64": V3_5,
    "node": V3_5,
    "node for musl": V3_5,
}


@pytest.mark.parametrize("name", slow_except(GOLDEN, "libssl-3.0-arm64", "libssl-3.5-x86-64"))
def test_places_in_a_library_as_it_ships(name: str) -> None:
    image = Image.open(foreign.needed(foreign.find(name)))
    sizes = SIZES | ({"options": 4} if "1.1" in name else {})
    assert label_paths(image) == {label: FieldPath(offsets, sizes[label]) for label, offsets in GOLDEN[name].items()}


@pytest.mark.parametrize("name", [name for name in foreign.NAMES if name not in GOLDEN])
def test_other_files_have_no_labels(name: str) -> None:
    assert label_paths(Image.open(foreign.needed(foreign.find(name)))) == {}


def test_signature_records_that_disagree(folder: Path) -> None:
    image, _ = made(folder, "plain")
    assert code_point_offset(image, 12, 20) == 8
    for hash_offset, key_offset in ((12, 24), (16, 20), (20, 12), (1 << 40, 20)):
        assert code_point_offset(image, hash_offset, key_offset) is None


# A library that runs: what its accessors say beside what lies at the places.


@dataclass(frozen=True)
class Library:
    """A libssl and its libcrypto, and the words with which a program is started that loads them."""

    libssl: Path
    libcrypto: Path
    start: tuple[str, ...] = ()


def _hosts_own() -> Library:
    folder = Path("/usr/lib/x86_64-linux-gnu")
    if not (folder / "libssl.so.3").exists():
        pytest.skip(f"needs OpenSSL 3 in {folder} (Debian: apt-get install libssl3)")
    return Library(folder / "libssl.so.3", folder / "libcrypto.so.3")


def _of_debian_13() -> Library:
    folder, loader = _debian_13()
    return Library(folder / "libssl.so.3", folder / "libcrypto.so.3", (*loader, str(folder)))


def _newest() -> Library:
    """With the C library of Debian 13, as this machine's may be older than it needs."""
    libssl, libcrypto = (foreign.needed(foreign.find(f"{name}-4-x86-64")) for name in ("libssl", "libcrypto"))
    folder, loader = _debian_13()
    return Library(libssl, libcrypto, (*loader, f"{libssl.parent}:{folder}"))


def _debian_13() -> tuple[Path, tuple[str, ...]]:
    """The folder of its libraries, and the words that start a program with those of the folders that follow."""
    root = foreign.needed(foreign.second_root()).resolve()
    folder = root / "usr" / "lib" / "x86_64-linux-gnu"
    return folder, (str(root / "lib64" / "ld-linux-x86-64.so.2"), "--library-path")


def _1_1_1() -> Library:
    return Library(*(foreign.needed(foreign.find(f"{name}-1.1-x86-64")) for name in ("libssl", "libcrypto")))


LIBRARIES: dict[str, Callable[[], Library]] = {
    "1.1.1": _1_1_1,
    "host": _hosts_own,
    "debian-13": _of_debian_13,
    "4": _newest,
}
KEYS = {"rsa": ("rsa:2048",), "ecdsa": ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")}
# obj_mac.h and IANA: a group's number to its code point; (kind of key, hash) to the code point of a signature algorithm.
GROUPS = {0: 0, 415: 23, 1034: 29}
SIGNATURES = {(0, 0): 0, (408, 672): 0x0403, (912, 672): 0x0804}
TLS_1_2, TLS_1_3 = 0x303, 0x304
HRR_NONE, HRR_PENDING, HRR_COMPLETE = range(3)


@pytest.fixture(scope="session")
def teller(folder: Path) -> Path:
    program = folder / "labels_told"
    build.run("gcc", "-O2", "-Wall", "-Werror", "-o", program, build.SOURCES / "labels_told.c", "-ldl")
    return program


@pytest.fixture(scope="session", params=KEYS)
def pair(request: pytest.FixtureRequest, folder: Path) -> tuple[Path, Path]:
    """A certificate and its key."""
    certificate, key = folder / f"{request.param}.crt", folder / f"{request.param}.key"
    made_by = ("openssl", "req", "-x509", "-newkey", *KEYS[request.param], "-nodes", "-days", "2", "-subj", "/CN=localhost")
    build.run(*made_by, "-keyout", key, "-out", certificate)
    return certificate, key


Told = dict[str, tuple[str, str]]


def told(teller: Path, library: Library, paths: dict[str, FieldPath], *words: object) -> list[tuple[str, str, Told]]:
    """(connection, side, label to what the accessor says and what was found), after each step."""
    places = [f"{name}/{path.size}/{'.'.join(map(str, path.offsets))}" for name, path in paths.items()]
    command = [*library.start, teller, library.libssl, library.libcrypto, *words, *places]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    steps: list[tuple[str, str, Told]] = []
    for line in done.stdout.splitlines():
        connection, side, name, says, found = line.split()
        if name == "version":
            steps.append((connection, side, {}))
        steps[-1][2][name] = says, found
    return steps


def group_found(step: Told) -> int:
    """The code point of the group by the rule that label_paths states."""
    tls13 = int(step["version"][1]) == TLS_1_3 and int(step["did_kex"][1])
    return int(step["group_tls13" if tls13 else "group_session"][1])


def assert_found_as_said(step: Told) -> None:
    pairs = {name: values for name, values in step.items() if "-" not in values and name != "signature"}
    assert {name: says for name, (says, _) in pairs.items()} == {name: found for name, (_, found) in pairs.items()}
    says, found = step["signature"]
    assert SIGNATURES[divmod(int(says), 1 << 32)] == int(found)
    if "group_tls13" in step:
        assert GROUPS[int(step["group"][0])] == group_found(step)


@pytest.mark.parametrize("client_certificate", [0, 1], ids=["no-client-certificate", "client-certificate"])
@pytest.mark.parametrize("protocol", [TLS_1_2, TLS_1_3], ids=["1.2", "1.3"])
@pytest.mark.parametrize("version", slow_except(LIBRARIES, "host"))
def test_places_are_what_the_accessors_read(
    teller: Path, pair: tuple[Path, Path], version: str, protocol: int, client_certificate: int
) -> None:
    library = LIBRARIES[version]()
    paths = label_paths(Image.open(library.libssl))
    assert set(SIZES) - set(paths) == (GROUP if version == "1.1.1" else set())
    steps = told(teller, library, paths, *pair, hex(protocol), client_certificate)
    for _, _, step in steps:
        assert_found_as_said(step)
    # The last word on each connection and side, and that the runs were what they are meant to be.
    final = {(connection, side): step for connection, side, step in steps}
    connections = ["full", "resumed", "without_group", "retried"] if protocol == TLS_1_3 else ["full", "resumed"]
    assert set(final) == {(connection, side) for connection in connections for side in ("client", "server")}
    for (connection, side), step in final.items():
        assert int(step["version"][1]) == protocol
        assert int(step["in_init"][1]) == 0
        full = connection in ("full", "retried")
        assert int(step["resumed"][1]) == (not full)
        assert int(step["certificate"][1]), "the context has one"
        assert step["waitctx"] == ("1000", "1000")
        assert bool(int(step["peer_certificate"][1])) == (side == "client" or bool(client_certificate))
        assert int(step["name"][1]).to_bytes(8, "little") == b"a.example"[:8]
        assert step["alpn_length"] == ("8", "8")
        assert bool(int(step["signature"][1])) == (full and (side == "server" or bool(client_certificate)))
        if "did_kex" in step and protocol == TLS_1_3:
            assert int(step["did_kex"][1]) == (connection != "without_group")
        retried = HRR_COMPLETE if side == "server" else HRR_PENDING
        assert int(step["hello_retry"][1]) == (retried if connection == "retried" else HRR_NONE)
    assert {int(step["in_init"][1]) for _, _, step in steps} == {0, 1}
    assert len({step["hand_state"][1] for _, _, step in steps}) > 2
    retries = {(connection, int(step["hello_retry"][1])) for connection, side, step in steps if side == "server"}
    assert {value for connection, value in retries if connection != "retried"} == {HRR_NONE}
    if protocol == TLS_1_3:
        assert {value for connection, value in retries if connection == "retried"} == {HRR_PENDING, HRR_COMPLETE}
