# SPDX-License-Identifier: Apache-2.0
"""Engines: they put a plan to work in the kernel and read what it counted."""
