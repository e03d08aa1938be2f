# SPDX-License-Identifier: Apache-2.0
"""`python -m ssllatency`.

Python puts the folder that it is run in before all others, and whoever may write there could put modules into it that root
runs: it is taken out before anything else is imported. `python -I -m ssllatency` never puts it there.
"""

import sys

if not sys.flags.safe_path:
    del sys.path[0]

from ssllatency.cli.main import main

main()
