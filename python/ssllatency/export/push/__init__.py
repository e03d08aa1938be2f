# SPDX-License-Identifier: Apache-2.0
"""Deliveries to an OTLP receiver, and when they are tried again."""
