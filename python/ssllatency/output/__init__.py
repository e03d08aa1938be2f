# SPDX-License-Identifier: Apache-2.0
"""Destinations of results: standard output, streams, files. The one way from a report to a terminal or a file."""
