# SPDX-License-Identifier: Apache-2.0
"""Keeps what tracing costs within a budget: functions that cost too much are watched in windows only."""
