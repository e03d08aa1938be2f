# SPDX-License-Identifier: Apache-2.0
"""The man pages and the shell completion of an installation, made from the parser, the docs and the scripts."""
