# SPDX-License-Identifier: Apache-2.0
"""Counts of `ssllatency export`, read back from Prometheus as a recording."""
