# SPDX-License-Identifier: Apache-2.0
"""A server for clients that are traced, in a thread of the test."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.live.clients.counted import TIMEOUT_S


@contextmanager
def accepting(serve: Callable[[socket.socket], object]) -> Iterator[int]:
    """It does this with one connection after another, which it then closes, until the end of the block; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def work() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                connection.settimeout(TIMEOUT_S)
                with connection:
                    serve(connection)

        working = threading.Thread(target=work, daemon=True)
        working.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            working.join(TIMEOUT_S)
