# SPDX-License-Identifier: Apache-2.0
"""Findings about files: each is read and planned by a confined process of its own, which says what it found."""
