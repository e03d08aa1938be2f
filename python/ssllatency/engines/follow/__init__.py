# SPDX-License-Identifier: Apache-2.0
"""Processes and mappings that come while a session runs."""
