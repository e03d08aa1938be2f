# SPDX-License-Identifier: Apache-2.0
"""Small made texts to begin with: recordings, matrices and their tables, and what load generators print."""

from __future__ import annotations

import csv
import io
import random
from dataclasses import replace
from pathlib import Path

from ssllatency.load.matrix import table as matrix_csv
from ssllatency.load.matrix.plan import Factor
from ssllatency.load.tools import s_time
from ssllatency.model.handshakes import Ending, Label, Part
from ssllatency.model.recording import Recording, Run
from ssllatency.model.snapshot import Losses, Missing, Outcome, Snapshot, Target, TracedLibrary
from ssllatency.reports.documents import document
from ssllatency.reports.documents.recording import to_lines
from tests.measured.handshakes import Shake, handshakes_of
from tests.measured.recordings import calls_of, interval_of, shakes_of

_OUTPUTS = Path(__file__).parents[1] / "unit/load/outputs"
_CONDITIONS = (
    "handshake p99 > 50ms for 10s",
    "failure > 5% and handshake rate >= 10/s for 1m30s or resumed share < 0.2",
    "wait peer p99.9 <= 1.5 s or private_key mean > 200us and SSL_read failure count > 3",
    "SSL_write retry share > 1 % for 30 s",
)
_MATRICES = (
    'seconds = 1\nconnections = 9\n[servers.web]\n[factors]\nkey = ["RSA-2048", "ECDSA-P256"]\nversion = "TLSv1.3"\n',
    'seconds = 2\nrepeats = 3\nseed = 7\n[servers.a]\nkind = "openssl"\noptions = ["-quiet"]\n[factors]\npage = "none"\n',
    'seconds = 1\nconnections = 5\nclients = 2\nwarm_up = 0\n[servers.r]\nkind = "running"\naddress = "[::1]:443"\npid = 7\n'
    'key = "RSA-2048"\nclient_certificate = "want"\n[factors]\ntool = ["s_time", "h2load"]\ngroup = ["X25519", "default"]\n'
    'resumption = ["new", "reuse"]\nclient_certificate = "want"\nclient_key = ["none", "RSA-2048"]\n'
    '[[exclude]]\ntool = "h2load"\ngroup = "default"\n',
    'seconds = 1\n[servers.n]\nprogram = "/usr/sbin/nginx"\nworkers = 2\nmain = ["pcre_jit on;"]\nhttp = []\n[factors]\n'
    'cipher = ["default", "AES128-SHA", "TLS_AES_128_GCM_SHA256"]\npage = ["/", "/100"]\nversion = ["TLSv1.2", "TLSv1.3"]\n',
)


def _interval(number: int, host: str = "web1") -> Snapshot:
    """One with a little of everything that a recording may hold."""
    chance = random.Random(number)
    labels = {Label.VERSION: "TLSv1.3", Label.RESUMED: "no"}
    shakes = [replace(one, labels=labels, key=("sign", "RSA-2048")) for one in shakes_of(chance, 2)]
    failed = Shake({Part.REST: 9_000}, labels, Ending.FAILURE, reason="no shared cipher", code=0xA0000C1, state="read")
    retries = replace(calls_of("SSL_read", [700], Outcome.RETRY), reasons={"WANT_READ": 1})
    made = interval_of(number, [*shakes, failed], [calls_of("SSL_read", [900, 2_000_000]), retries], host)
    return replace(
        made,
        targets=(Target(17, "nginx", (TracedLibrary("/usr/lib/libssl.so.3", "ab12", "OpenSSL 3.0.19"),)),),
        missing=(Missing("SSL_connect", "/usr/lib/libssl.so.3", "no symbol and no table names it"),),
        losses=Losses(1, 0, 2, 0, 0),
        in_flight=1,
        notes=("A note.",),
    )


def recordings() -> list[bytes]:
    """Recordings of one run and of two, one that was cut short, and documents."""
    first = Run((_interval(0), _interval(1)), "0.9", "ssllatency record -p 17", 1.0, ("A note.",))
    second = Run((_interval(0, "web2"),))
    whole = "".join(to_lines(Recording((first, second)), by_process=True))
    bare = replace(_interval(2), handshakes=None)
    client = replace(bare, client=s_time.parse((_OUTPUTS / "s_time/real-s_time-new.txt").read_text(), ("openssl", "s_time")))
    empty = replace(bare, series=(), handshakes=handshakes_of([]))
    documents = [document.to_json(each, by_process=True) + "\n" for each in (bare, client, empty)]
    texts = ["".join(to_lines(Recording((second,)))), whole, whole[:-40], *documents, "".join(documents[:1] * 2)]
    return [each.encode() for each in texts]


def tool_outputs() -> list[bytes]:
    """What load generators printed, new ones and old."""
    return [path.read_bytes() for path in sorted(_OUTPUTS.glob("*/*.txt"))]


def matrices() -> list[bytes]:
    """A matrix for each kind of server."""
    return [each.encode() for each in _MATRICES]


def conditions() -> list[bytes]:
    """Conditions of all kinds of subjects, figures and values."""
    return [each.encode() for each in _CONDITIONS]


def tables() -> list[bytes]:
    """Tables of a matrix's runs, that of the matrix called "identity"."""
    row = {**dict.fromkeys(matrix_csv.COLUMNS, "1.5"), **dict.fromkeys(Factor, "new"), "matrix": "identity", "repeat": "1"}
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([matrix_csv.COLUMNS, row.values(), {**row, "repeat": "2"}.values()])
    whole = text.getvalue().encode()
    return [whole, whole[: whole.find(b"\n") + 1]]
