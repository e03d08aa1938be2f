# SPDX-License-Identifier: Apache-2.0
"""`python -m ssllatency`.

Python searches the current folder for modules first, so anyone who may write there could have root run their code. The folder
is removed from the search path before anything else is imported. `python -I -m ssllatency` never adds it.
"""

import sys

if not sys.flags.safe_path:
    del sys.path[0]

from ssllatency.cli.main import main

main()
