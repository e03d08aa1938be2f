# SPDX-License-Identifier: Apache-2.0
"""A real OpenTelemetry Collector, and what it passes metrics on to."""
