# SPDX-License-Identifier: Apache-2.0
"""`python -m ssllatency`."""

from ssllatency.cli.main import main

main()
