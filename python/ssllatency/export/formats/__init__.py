# SPDX-License-Identifier: Apache-2.0
"""Points on the wire: Prometheus' text and protobuf, OTLP."""
