# SPDX-License-Identifier: Apache-2.0
"""A cell's client, how its server is set up, and whether the server saw what the cell is about."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.matrices import SERVER, matrix, only_cell
from tests.measured.handshakes import Shake, handshakes_of

from ssllatency.load.arguments import Endpoint
from ssllatency.load.matrix.client import command, differences
from ssllatency.load.matrix.plan import KEYS
from ssllatency.load.matrix.servers.certificates import Certificate
from ssllatency.load.matrix.servers.nginx_configuration import configuration
from ssllatency.load.matrix.servers.process import CertificateFiles, free_ports, site_of
from ssllatency.model.handshakes import GIVEN, NO, NOT_ASKED, YES, Label, Part

WHERE = Endpoint("127.0.0.1", 8443)
LABELS = {
    Label.VERSION: "TLSv1.3",
    Label.CIPHER: "TLS_AES_128_GCM_SHA256",
    Label.RESUMED: NO,
    Label.GROUP: "x25519",
    Label.CLIENT_CERTIFICATE: NOT_ASKED,
}


def keys(folder: Path) -> CertificateFiles:
    """Without the files themselves."""
    made = {f"client-{kind}": Certificate(Path(f"/k/{kind}.crt"), Path(f"/k/{kind}.key")) for kind in KEYS}
    return CertificateFiles(folder, made, Path("/k/clients.crt"))


def words(folder: Path, factors: str) -> str:
    return " ".join(command(only_cell(factors), matrix(factors), WHERE, keys(folder)))


def lines(factors: str) -> str:
    """What nginx is told of the cell's port."""
    site = site_of(only_cell(factors))
    pair = Certificate(Path("/k/s.crt"), Path("/k/s.key"))
    return configuration(matrix().servers["web"], {site: 8443}, 8080, Path("/f"), lambda _kind: pair, Path("/k/clients.crt"))


def test_s_time(tmp_path: Path) -> None:
    assert words(tmp_path, "") == "openssl s_time -connect 127.0.0.1:8443 -www / -time 1 -new -tls1_3"
    assert words(tmp_path, 'page = "none"\nversion = "default"') == "openssl s_time -connect 127.0.0.1:8443 -time 1 -new"
    found = words(tmp_path, 'resumption = "reuse"\nclient_certificate = "need"\ncipher = "TLS_CHACHA20_POLY1305_SHA256"')
    assert found.endswith(
        "-reuse -tls1_3 -ciphersuites TLS_CHACHA20_POLY1305_SHA256 -cert /k/ECDSA-P-256.crt -key /k/ECDSA-P-256.key"
    )


def test_s_time_offers_the_group_alone(tmp_path: Path) -> None:
    """Else it guesses X25519 and needs another round trip."""
    found = words(tmp_path, 'group = "P-384"')
    assert found.startswith(f"env OPENSSL_CONF={tmp_path}/P-384.cnf openssl s_time")
    assert (tmp_path / "P-384.cnf").read_text().endswith("\nGroups = P-384\n")


def test_in_tls_1_2_the_curves_of_certificates_are_offered_as_well(tmp_path: Path) -> None:
    """Without them neither side could use the other's certificate; the group is taken, as it comes first."""
    cell = 'version = "TLSv1.2"\ngroup = "X25519"\nkey = "ECDSA-P-384"\n'
    assert " --groups=X25519:P-384 " in words(tmp_path, f'{cell}tool = "h2load"')
    assert "ssl_ecdh_curve X25519:P-384;" in lines(cell)
    words(tmp_path, f'{cell}client_certificate = "need"')
    assert (tmp_path / "X25519-P-384-P-256.cnf").read_text().endswith("\nGroups = X25519:P-384:P-256\n")
    assert "ssl_ecdh_curve X25519:P-384:P-256;" in lines(f'{cell}client_certificate = "need"')


@pytest.mark.parametrize(("group", "key"), [("prime256v1", "P-256"), ("secp256r1", "P-256"), ("secp384r1", "P-384")])
def test_a_curve_that_is_the_group_by_another_name_is_offered_once(tmp_path: Path, group: str, key: str) -> None:
    """OpenSSL refuses a list with a group twice."""
    cell = f'version = "TLSv1.2"\ngroup = "{group}"\nkey = "ECDSA-{key}"\n'
    assert f" --groups={group} " in words(tmp_path, f'{cell}tool = "h2load"')
    assert f"ssl_ecdh_curve {group};" in lines(cell)


def test_h2load(tmp_path: Path) -> None:
    found = words(tmp_path, 'tool = "h2load"\ngroup = "P-256"\npage = "/1000"')
    assert found == "h2load --h1 -c 10 -t 1 -n 100 -H Connection: close --groups=P-256 https://127.0.0.1:8443/1000"


def test_sessions_are_off_only_for_new_ones_of_h2load() -> None:
    assert "ssl_session_tickets off;" in lines('tool = "h2load"')
    for factors in ('tool = "h2load"\nresumption = "reuse"', "", 'resumption = "reuse"'):
        assert "ssl_session_tickets off;" not in lines(factors)
        assert "ssl_session_cache shared:sessions:16m;" in lines(factors)


@pytest.mark.parametrize(
    ("factors", "line"),
    [
        ('version = "TLSv1.2"', "ssl_protocols TLSv1.2;"),
        ('version = "default"', "ssl_protocols TLSv1.2 TLSv1.3;"),
        ('cipher = "TLS_AES_128_GCM_SHA256"', "ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;"),
        ('version = "TLSv1.2"\ncipher = "AES128-SHA"', "ssl_ciphers AES128-SHA;"),
        ('group = "X448"', "ssl_ecdh_curve X448;"),
        ("", "ssl_ecdh_curve auto;"),
        ('client_certificate = "want"', "ssl_verify_client optional;"),
        ('client_certificate = "need"', "ssl_verify_client on;"),
    ],
)
def test_the_port_of_a_cell(factors: str, line: str) -> None:
    assert line in lines(factors)


def test_the_page_is_no_matter_of_the_port() -> None:
    assert site_of(only_cell('page = "/9"')) == site_of(only_cell('page = "none"'))
    assert site_of(only_cell()) != site_of(only_cell('key = "Ed25519"'))


def seen(factors: str, *labels: dict[Label, str], key: str = "RSA-2048", full: int = 1) -> list[str]:
    shakes = [Shake({Part.REST: 1000}, {**LABELS, **one}, key=("sign", key)) for one in labels]
    return differences(only_cell(factors), handshakes_of(shakes), full)


def test_what_is_as_it_should_be() -> None:
    assert seen("", {}, {}) == []
    assert seen('group = "X25519"\ncipher = "TLS_AES_128_GCM_SHA256"', {}) == []
    assert seen('group = "P-256"', {Label.GROUP: "secp256r1"}) == []
    assert seen('key = "ECDSA-P-384"', {}, key="ECDSA P-384") == []
    assert seen('client_certificate = "want"', {Label.CLIENT_CERTIFICATE: GIVEN}) == []
    assert seen('resumption = "reuse"', {}, {Label.RESUMED: YES}) == []
    assert seen("", {}, key="") == []  # a key that can't be told


@pytest.mark.parametrize(
    ("factors", "label", "words"),
    [
        ("", {Label.VERSION: "TLSv1.2"}, "version: TLSv1.2 in 1"),
        ('group = "P-256"', {}, "group: x25519 in 1"),
        ('cipher = "TLS_CHACHA20_POLY1305_SHA256"', {}, "cipher: TLS_AES_128_GCM_SHA256 in 1"),
        ("", {Label.RESUMED: YES}, "resumed: yes in 1"),
        ('client_certificate = "need"', {}, "client_certificate: not asked in 1"),
        ("", {Label.CLIENT_CERTIFICATE: GIVEN}, "client_certificate: given in 1"),
        ('key = "RSA-4096"', {}, "key: RSA-2048 in 1"),
    ],
)
def test_what_is_not(factors: str, label: dict[Label, str], words: str) -> None:
    assert seen(factors, label) == [words]


def test_only_the_first_of_each_client_may_be_full() -> None:
    assert seen('resumption = "reuse"', *[{}] * 3, {Label.RESUMED: YES}, full=3) == []
    assert seen('resumption = "reuse"', *[{}] * 4, {Label.RESUMED: YES}, full=3) == ["resumed: no in 4"]


def test_free_ports_differ_and_are_not_those_of_outgoing_connections() -> None:
    ports = free_ports(20)
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    assert len(set(ports)) == 20
    assert not any(first <= port <= last for port in ports) or last - first > 64000


def test_server_settings_are_in_its_configuration() -> None:
    entry = matrix(head=f'{SERVER}workers = 3\nmain = ["ssl_engine x;"]\nhttp = ["keepalive_timeout 1s;"]\n').servers["web"]
    text = configuration(entry, {}, 8080, Path("/f"), lambda kind: Certificate(Path(kind), Path(kind)), Path("/k"))
    assert "worker_processes 3;\n" in text
    assert text.index("ssl_engine x;") < text.index("http {") < text.index("keepalive_timeout 1s;")
