# SPDX-License-Identifier: Apache-2.0
"""Servers of Python's own in this process, that answer while a test asks and leave no socket behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseServer
from typing import TypeVar

S = TypeVar("S", bound=BaseServer)


@contextmanager
def answering(server: S) -> Iterator[S]:
    """The server answers in a thread of its own for the length of the block, and is closed after it."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
