# SPDX-License-Identifier: Apache-2.0
"""Waiting for what others say, by whichever descriptor: the tool raises its limit of open files, so that there are many."""

from __future__ import annotations

import fcntl
import os
import resource

from ssllatency.stopping import readable, wait_for


def test_descriptors_beyond_those_that_select_knows() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    low, sending = os.pipe()
    high = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 2000)
    try:
        assert high >= 2000
        assert readable([high], 0) == wait_for([high], 0) == set()
        os.write(sending, b"x")
        assert readable([high], 0) == wait_for([high], 0) == {high}
    finally:
        for descriptor in (low, sending, high):
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
