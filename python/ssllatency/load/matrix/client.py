# SPDX-License-Identifier: Apache-2.0
"""The client of one cell: its command line, and whether the server then saw what the cell specifies."""

from __future__ import annotations

from pathlib import Path

from ssllatency.load.arguments import Endpoint
from ssllatency.load.figures import LoadRequest
from ssllatency.load.matrix.plan import DEFAULT, NEW, NONE, NOT_APPLICABLE, Cell, Factor, Matrix, chosen, group_name
from ssllatency.load.matrix.servers.process import CertificateFiles, groups_of
from ssllatency.load.tools.choice import TOOLS
from ssllatency.model.handshakes import GIVEN, NO, NOT_ASKED, NOT_GIVEN, YES, Handshakes, Label

# s_time has no option for the groups, but takes them from OpenSSL's configuration.
_OPENSSL_CONFIGURATION = """\
openssl_conf = all
[all]
ssl_conf = ssl
[ssl]
system_default = groups
[groups]
Groups = {groups}
"""


def command(cell: Cell, matrix: Matrix, where: Endpoint, keys: CertificateFiles) -> list[str]:
    """The command line of one run. LoadError for what the tool can't."""
    pair, s_time = keys.client(cell[Factor.CLIENT_KEY]), cell[Factor.TOOL] == "s_time"
    clients = 1 if s_time else min(matrix.clients, matrix.connections)
    request = LoadRequest(
        host=where.host,
        port=where.port,
        page="" if cell[Factor.PAGE] == NONE else cell[Factor.PAGE],
        seconds=matrix.seconds if s_time else None,
        requests=None if s_time else matrix.connections,
        connections=clients,
        # h2load resumes whenever it can: for new sessions its server gives out none.
        reuse=not s_time or cell[Factor.RESUMPTION] != NEW,
        version=chosen(cell[Factor.VERSION]) if s_time else "",
        cipher=chosen(cell[Factor.CIPHER]),
        groups="" if s_time else groups_of(cell),
        certificate=str(pair.certificate) if pair else "",
        key=str(pair.key) if pair else "",
    )
    words = TOOLS[cell[Factor.TOOL]].command(request)
    return [*_with_groups(groups_of(cell), keys.folder), *words] if s_time else words


def _with_groups(groups: str, folder: Path) -> list[str]:
    """The words before the command of a client that is to offer these groups."""
    if not groups:
        return []
    file = folder / f"{groups.replace(':', '-')}.cnf"
    file.write_text(_OPENSSL_CONFIGURATION.format(groups=groups))
    file.chmod(0o644)  # for the account that the client runs as
    return ["env", f"OPENSSL_CONF={file}"]


def differences(cell: Cell, handshakes: Handshakes, full: int) -> list[str]:
    """Return how the server's successful handshakes differ from what the cell asks for, in phrases.

    `full` of them may be full where they are to resume: the first of each client. What the server's library doesn't show isn't
    held against it.
    """
    differences = []
    for label, values in _wanted(cell).items():
        counts = handshakes.mix.get(label, {})
        wrong = {value: count for value, count in counts.items() if value and value.lower() not in values}
        if label is Label.RESUMED and YES in values and sum(wrong.values()) <= full:
            continue
        differences += [f"{label}: {value} in {count}" for value, count in wrong.items()]
    key = _key(cell[Factor.KEY])
    return differences + [f"key: {use.key} in {use.count}" for use in handshakes.keys if use.key and use.key != key]


def _wanted(cell: Cell) -> dict[Label, tuple[str, ...]]:
    """The labels' values that fit the cell, in small letters."""
    group = cell[Factor.GROUP].lower()
    wanted = {
        Label.VERSION: (cell[Factor.VERSION].lower(),),
        Label.CIPHER: (cell[Factor.CIPHER].lower(),),
        Label.GROUP: (group, group_name(group)),
        Label.RESUMED: (NO if cell[Factor.RESUMPTION] == NEW else YES,),
    }
    if cell[Factor.CLIENT_CERTIFICATE] == NONE:
        wanted[Label.CLIENT_CERTIFICATE] = (NOT_ASKED,)
    elif cell[Factor.RESUMPTION] == NEW:  # one that resumes isn't asked again
        wanted[Label.CLIENT_CERTIFICATE] = (NOT_GIVEN if cell[Factor.CLIENT_KEY] == NONE else GIVEN,)
    return {label: values for label, values in wanted.items() if not {DEFAULT, NOT_APPLICABLE} & set(values)}


def _key(kind: str) -> str:
    """The name of a kind of key in the server's reports."""
    return kind.replace("ECDSA-", "ECDSA ")
