# SPDX-License-Identifier: Apache-2.0
"""TLS servers as Debian ships them, each in a folder of its own, on the loopback address only, ended with its block.

Each says by its own statistics, which no TLS call of ours counts, what it has served: `told()` of the running server.
"""

from __future__ import annotations

import contextlib
import csv
import grp
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from ssllatency.targets.sockets.listening import serving
from tests import foreign
from tests.live.servers.nginx import START_TIMEOUT_S, Certificate, Nginx, ServerError, free_ports
from tests.live.servers.python_ssl import TlsServer, TlsSettings
from tests.waiting import wait_for

Told = dict[str, int]
_NOBODY = "nobody"  # as whom servers run that refuse to run as root


@dataclass(frozen=True)
class Running:
    """A server at work: the process to trace, its TLS port, and what it says that it has served so far."""

    pid: int
    port: int
    told: Callable[[], Told]


@contextmanager
def haproxy(pair: Certificate, words: str = "", threads: int = 4) -> Iterator[Running]:
    """`words` are more of the TLS port's."""
    program, (port,) = _program("haproxy"), free_ports(1)
    with own_folder() as folder:
        (folder / "both.pem").write_text(pair.certificate.read_text() + pair.key.read_text())
        (folder / "conf").write_text(_HAPROXY.format(folder=folder, port=port, words=words, threads=threads))
        with started([program, "-db", "-f", folder / "conf"], folder, port) as pid:
            yield Running(pid, port, lambda: _haproxy_told(folder / "stats"))


_HAPROXY = """
global
    nbthread {threads}
    stats socket {folder}/stats
defaults
    mode http
    timeout client 20s
    timeout http-keep-alive 20s
frontend tls
    bind 127.0.0.1:{port} ssl crt {folder}/both.pem curves X25519 {words}
    http-request return status 200 content-type text/plain string hello
"""


def _ask_haproxy(path: Path, question: str) -> str:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(str(path))
        asking.sendall(f"{question}\n".encode())
        return asking.makefile().read()


def frontend_of_haproxy(path: Path) -> dict[str, str]:
    """The statistics of its frontend, by its socket for such questions."""
    rows = csv.DictReader(_ask_haproxy(path, "show stat").lstrip("# ").splitlines())
    return next(row for row in rows if row["svname"] == "FRONTEND")


def _haproxy_told(path: Path) -> Told:
    connections = re.search(r"^CumSslConns: (\d+)$", _ask_haproxy(path, "show info"), re.MULTILINE)
    assert connections
    frontend = frontend_of_haproxy(path)
    return {"handshakes": int(connections[1]), "requests": int(frontend["req_tot"]), "responses": int(frontend["hrsp_2xx"])}


@contextmanager
def apache(pair: Certificate) -> Iterator[Running]:
    """Two processes of eight threads, by the event module."""
    program, (port, status) = _program("apache2"), free_ports(2)
    with own_folder(mode=0o755) as folder:
        (folder / "www").mkdir()
        (folder / "www" / "index.html").write_text("hello")
        user = _NOBODY if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        words = {"folder": folder, "port": port, "status": status, "user": user, "pair": pair}
        (folder / "conf").write_text(_APACHE.format(**words))
        with started([program, "-D", "FOREGROUND", "-f", folder / "conf"], folder, port) as pid:
            yield Running(pid, port, lambda: _apache_told(status))


_APACHE = """
ServerRoot {folder}
PidFile {folder}/pid
DefaultRuntimeDir {folder}
ErrorLog {folder}/log
ServerName localhost
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule dir_module /usr/lib/apache2/modules/mod_dir.so
LoadModule ssl_module /usr/lib/apache2/modules/mod_ssl.so
LoadModule status_module /usr/lib/apache2/modules/mod_status.so
User {user}
StartServers 2
ServerLimit 2
ThreadsPerChild 8
MaxRequestWorkers 16
ExtendedStatus on
KeepAliveTimeout 20
SSLSessionCache none
DocumentRoot {folder}/www
Listen 127.0.0.1:{port}
Listen 127.0.0.1:{status}
<VirtualHost 127.0.0.1:{port}>
    SSLEngine on
    SSLCertificateFile {pair.certificate}
    SSLCertificateKeyFile {pair.key}
    SSLOpenSSLConfCmd Groups X25519
</VirtualHost>
<VirtualHost 127.0.0.1:{status}>
    <Location /status>
        SetHandler server-status
    </Location>
</VirtualHost>
"""


def _apache_told(port: int) -> Told:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/status?auto", timeout=10) as response:
        found = re.search(r"^Total Accesses: (\d+)$", response.read().decode(), re.MULTILINE)
    assert found
    return {"requests": int(found[1])}


# By its module: what its log has of a handshake that failed.
_FAILURES_OF_LIGHTTPD = {"gnutls": r"mod_gnutls_\w+: \((\w+)\)", "mbedtls": r"mod_mbedtls_ssl_handshake: .*\(-0x(\w+)\)"}


@contextmanager
def lighttpd(pair: Certificate, library: str = "gnutls") -> Iterator[Running]:
    """With GnuTLS, Mbed TLS or wolfSSL, by one thread that waits for all of its sockets. It tells which handshakes failed, by
    the names of the first or the numbers of the second; with wolfSSL it doesn't."""
    program, (port,) = _program("lighttpd"), free_ports(1)
    if not Path(f"/usr/lib/lighttpd/mod_{library}.so").exists():
        pytest.skip(f"lighttpd-mod-{library} isn't installed: run tools/setup")
    with own_folder() as folder:
        (folder / "conf").write_text(_LIGHTTPD.format(folder=folder, port=port, pair=pair, library=library))
        (folder / "index.html").write_text("hello")
        with started([program, "-D", "-f", folder / "conf"], folder, port) as pid:
            yield Running(pid, port, lambda: _lighttpd_told(pid, folder, _FAILURES_OF_LIGHTTPD.get(library)))


_LIGHTTPD = """
server.modules = ("mod_{library}", "mod_accesslog")
server.document-root = "{folder}"
server.bind = "127.0.0.1"
server.port = {port}
server.errorlog = "{folder}/log"
index-file.names = ("index.html")
ssl.engine = "enable"
ssl.pemfile = "{pair.certificate}"
ssl.privkey = "{pair.key}"
debug.log-ssl-noise = "enable"
accesslog.filename = "{folder}/requests"
accesslog.format = "answered"
"""


def _lighttpd_told(pid: int, folder: Path, failures: str | None) -> Told:
    """What its logs have; it is soon to write what it still keeps of the one with requests."""
    os.kill(pid, signal.SIGHUP)
    return _found(folder / "requests", "(answered)") | (_found(folder / "log", failures) if failures else {})


@contextmanager
def exim(pair: Certificate, *, starttls: bool) -> Iterator[Running]:
    """With GnuTLS, on sockets that block, by a process for each connection. It tells of each that ends by QUIT whether it was
    encrypted, and why handshakes failed in GnuTLS' sentences. Without `starttls` connections begin with a handshake."""
    program, (port,) = _program("exim4"), free_ports(1)
    if os.geteuid():
        pytest.skip("exim takes a configuration from root only")
    with own_folder() as folder:
        words = {"folder": folder, "port": port, "pair": pair, "on_connect": "" if starttls else port}
        (folder / "conf").write_text(_EXIM.format(**words))
        (folder / "conf").chmod(0o600)
        with started([program, "-C", folder / "conf", "-bdf"], folder, port) as pid:
            yield Running(pid, port, lambda: _found(folder / "mainlog", r"(encrypted)$|\(gnutls_handshake\): (.*)"))


_EXIM = """
daemon_smtp_ports = {port}
tls_on_connect_ports = {on_connect}
local_interfaces = 127.0.0.1
primary_hostname = localhost
exim_user = root
exim_group = root
spool_directory = {folder}
log_file_path = {folder}/%slog
pid_file_path = {folder}/pid
keep_environment =
host_lookup =
tls_advertise_hosts = *
tls_certificate = {pair.certificate}
tls_privatekey = {pair.key}
acl_smtp_quit = quit
begin acl
quit:
    accept encrypted = *
           logwrite = encrypted
"""


@contextmanager
def stunnel(pair: Certificate) -> Iterator[Running]:
    """In front of an nginx without TLS."""
    program, (port,) = _program("stunnel4"), free_ports(1)
    with Nginx(pair.certificate.parent) as behind, own_folder() as folder:
        words = {"folder": folder, "port": port, "behind": behind.status_port, "pair": pair}
        (folder / "conf").write_text(_STUNNEL.format(**words))
        with started([program, folder / "conf"], folder, port) as pid:
            yield Running(pid, port, lambda: _lines(folder / "log", handshakes="TLS accepted: new session negotiated"))


_STUNNEL = """
foreground = yes
pid =
debug = 7
output = {folder}/log
[tls]
accept = 127.0.0.1:{port}
connect = 127.0.0.1:{behind}
cert = {pair.certificate}
key = {pair.key}
curves = X25519
"""


@contextmanager
def postgresql(pair: Certificate) -> Iterator[Running]:
    """A process for each connection. It tells what it has served once all of them are gone."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not programs:
        pytest.skip("postgresql isn't installed: run tools/setup")
    user, (port,) = pwd.getpwnam(_NOBODY) if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()), free_ports(1)
    prefix = ["setpriv", "--reuid", user.pw_name, "--regid", str(user.pw_gid), "--clear-groups"] if os.geteuid() == 0 else []
    with own_folder() as folder:
        for name, file in (("crt", pair.certificate), ("key", pair.key)):
            shutil.copy(file, folder / name)
            (folder / name).chmod(0o600)
        for each in (folder, folder / "crt", folder / "key"):
            os.chown(each, user.pw_uid, user.pw_gid)
        made = [*prefix, str(programs[-1].with_name("initdb")), "-D", f"{folder}/data", "-A", "trust", "-U", "postgres", "-N"]
        subprocess.run(made, check=True, capture_output=True, cwd=folder, timeout=60)
        options = {**_POSTGRESQL, "port": port, "ssl_cert_file": f"{folder}/crt", "ssl_key_file": f"{folder}/key"}
        command = [*prefix, programs[-1], "-D", folder / "data", *(f"--{name}={value}" for name, value in options.items())]
        with started(command, folder, port) as pid:
            own = _postgresql_at_rest(pid)

            def told() -> Told:
                assert _postgresql_at_rest(pid) == own  # else it has started them anew, as it does when one was killed
                return _lines(folder / "output", handshakes="SSL enabled (protocol=TLSv1")

            yield Running(pid, port, told)


def _postgresql_at_rest(pid: int) -> dict[str, str]:
    """The PIDs of its processes by title, once it has just those that are neither for a connection nor for its start."""

    def own() -> dict[str, str]:
        found = _titles(pid)
        return found if sorted(found) == _POSTGRESQL_OWN else {}

    titles: dict[str, str] = wait_for(own)
    return titles


def _titles(pid: int) -> dict[str, str]:
    """The children's PIDs by title. One that hasn't set its title yet has its parent's."""
    found: dict[str, str] = {}
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(OSError):
            found[Path(f"/proc/{child}/cmdline").read_text().rstrip("\0 ")] = child
    return found


_POSTGRESQL_OWN = [
    f"postgres: {name}" for name in ("background writer", "checkpointer", "logical replication launcher", "walwriter")
]
_POSTGRESQL = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "ssl": "on",
    "ssl_ecdh_curve": "prime256v1",
    "log_connections": "on",
    "fsync": "off",
    "autovacuum": "off",
}


@contextmanager
def dovecot(pair: Certificate) -> Iterator[Running]:
    """IMAP with a login process for each connection, none of which is there before the first. They load libssl as a module."""
    if os.geteuid():
        pytest.skip("dovecot wants to be started as root")
    program, (port,) = _program("dovecot"), free_ports(1)
    with own_folder(mode=0o755) as folder:
        group = grp.getgrgid(pwd.getpwnam(_NOBODY).pw_gid).gr_name
        (folder / "conf").write_text(_DOVECOT.format(folder=folder, port=port, pair=pair, user=_NOBODY, group=group))
        with started([program, "-F", "-c", folder / "conf"], folder, port) as pid:
            yield Running(pid, port, lambda: _lines(folder / "log", handshakes=", TLS, session="))


_DOVECOT = """
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
protocols = imap
ssl = required
ssl_cert = <{pair.certificate}
ssl_key = <{pair.key}
default_login_user = {user}
default_internal_user = {user}
default_internal_group = {group}
service imap-login {{
  inet_listener imap {{
    port = 0
  }}
  inet_listener imaps {{
    address = 127.0.0.1
    port = {port}
    ssl = yes
  }}
}}
passdb {{
  driver = static
  args = password=none
}}
userdb {{
  driver = static
  args = uid=65534 gid=65534 home={folder}
}}
"""


@contextmanager
def python(pair: Certificate) -> Iterator[Running]:
    """Python's ssl module, with a thread for each connection. It reads with SSL_read_ex."""
    with TlsServer(pair.certificate.parent, TlsSettings(kind=pair.certificate.stem, curve="prime256v1")) as server:
        yield Running(server.pid, server.port, lambda: {"handshakes": server.ends().get("", 0)})


@contextmanager
def node(pair: Certificate) -> Iterator[Running]:
    """OpenSSL is part of it. At each SIGUSR2 its event loop is busy for 50 ms."""
    program, (port,) = foreign.needed(foreign.find("node")), free_ports(1)
    with own_folder() as folder:
        (folder / "server.js").write_text(NODE)
        command = [program, folder / "server.js", pair.certificate, pair.key, port]
        with started(command, folder, port) as pid:
            yield Running(pid, port, lambda: _lines(folder / "output", handshakes="secured", requests="asked"))


NODE = """
const https = require("https"), fs = require("fs"), [certificate, key, port] = process.argv.slice(2);
const server = https.createServer({cert: fs.readFileSync(certificate), key: fs.readFileSync(key), ecdhCurve: "X25519"},
  (request, response) => { fs.writeSync(1, "asked\\n"); response.end("hello"); });
server.on("secureConnection", () => fs.writeSync(1, "secured\\n"));
process.on("SIGUSR2", () => { const end = performance.now() + 50; while (performance.now() < end); });
server.listen(Number(port), "127.0.0.1");
"""


@contextmanager
def tomcat(pair: Certificate) -> Iterator[Running]:
    """Java's threads, and OpenSSL through Tomcat's native library."""
    classes = [str(jar) for jar in Path("/usr/share/java").glob("tomcat9-*.jar") if not re.search(r"-[0-9]", jar.name[7:])]
    native, (port,) = next(Path("/usr/lib").glob("*/libtcnative-1.so"), None), free_ports(1)
    if not classes or not native:
        pytest.skip("libtomcat9-java or libtcnative-1 isn't installed: run tools/setup")
    with own_folder() as folder:
        for name in ("conf", "www", "logs", "temp"):
            (folder / name).mkdir()
        (folder / "conf" / "server.xml").write_text(_TOMCAT.format(folder=folder, port=port, pair=pair))
        (folder / "conf" / "web.xml").write_text(_TOMCAT_FILES)
        (folder / "www" / "index.html").write_text("hello")
        settings = {"catalina.home": folder, "catalina.base": folder, "java.library.path": native.parent}
        words = ["-Xmx256m", *(f"-D{name}={value}" for name, value in settings.items()), "-cp", ":".join(classes)]
        command = [_program("java"), *words, "org.apache.catalina.startup.Tomcat", "--catalina", "start"]
        with started(command, folder, port) as pid:
            wait_for((folder / "logs" / "access").exists)  # it listens before it serves
            yield Running(pid, port, lambda: _lines(folder / "logs" / "access", requests="200"))


_TOMCAT = """
<Server port="-1">
  <Listener className="org.apache.catalina.core.AprLifecycleListener" SSLEngine="on"/>
  <Service name="Catalina">
    <Connector port="{port}" address="127.0.0.1" protocol="org.apache.coyote.http11.Http11NioProtocol" SSLEnabled="true"
               sslImplementationName="org.apache.tomcat.util.net.openssl.OpenSSLImplementation" maxKeepAliveRequests="-1">
      <SSLHostConfig>
        <Certificate certificateFile="{pair.certificate}" certificateKeyFile="{pair.key}" type="UNDEFINED"/>
      </SSLHostConfig>
    </Connector>
    <Engine name="Catalina" defaultHost="localhost">
      <Host name="localhost">
        <Context path="" docBase="{folder}/www"/>
        <Valve className="org.apache.catalina.valves.AccessLogValve" directory="logs" prefix="access" suffix=""
               rotatable="false" pattern="%s" buffered="false"/>
      </Host>
    </Engine>
  </Service>
</Server>
"""
_TOMCAT_FILES = """
<web-app xmlns="http://xmlns.jcp.org/xml/ns/javaee" version="4.0">
  <servlet><servlet-name>files</servlet-name><servlet-class>org.apache.catalina.servlets.DefaultServlet</servlet-class></servlet>
  <servlet-mapping><servlet-name>files</servlet-name><url-pattern>/</url-pattern></servlet-mapping>
  <welcome-file-list><welcome-file>index.html</welcome-file></welcome-file-list>
</web-app>
"""


def _lines(path: Path, **marks: str) -> Told:
    """How many lines of the file have each of these texts in them."""
    lines = path.read_text(errors="replace").splitlines()
    return {name: sum(mark in line for line in lines) for name, mark in marks.items()}


def _found(path: Path, pattern: str) -> Told:
    """How many lines of the file have each of the texts that this finds in them."""
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    found = (match for line in lines if (match := re.search(pattern, line)))
    return dict(Counter(next(filter(None, match.groups())) for match in found))


def _program(name: str) -> str:
    """Its path; a skip where it isn't installed."""
    path = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    return path or pytest.skip(f"{name} isn't installed: run tools/setup")


@contextmanager
def own_folder(mode: int = 0o700) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ssllatency-") as made:
        Path(made).chmod(mode)
        yield Path(made)


@contextmanager
def started(command: list[object], folder: Path, port: int) -> Iterator[int]:
    """The PID of the program once it serves; what it writes is in the folder's file "output"."""
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(list(map(str, command)), cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        _wait_until_serving(process, folder, port)
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_serving(process: subprocess.Popen[bytes], folder: Path, port: int) -> None:
    """Waits until it listens. It isn't connected to: that would be in its books, and in ours where it comes to it late."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        if serving(port, ("127.0.0.1",), [process.pid])[0]:
            return
        time.sleep(0.02)
    said = "".join(file.read_text(errors="replace") for file in (folder / "output", folder / "log") if file.exists())
    raise ServerError(f"{process.args} did not start: {said[-2000:]}")
