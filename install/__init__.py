# SPDX-License-Identifier: Apache-2.0
"""What an installation has beside the package, made from the parser, the docs and the scripts: man pages and completion."""
