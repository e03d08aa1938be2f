# SPDX-License-Identifier: Apache-2.0
"""Where results go: standard output, streams, files. The one way from a report to a terminal or a file."""
