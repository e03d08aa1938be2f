# SPDX-License-Identifier: Apache-2.0
"""Reads a running session again and again for a live view, and keeps what it reads where that is asked for."""
