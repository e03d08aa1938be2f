# SPDX-License-Identifier: Apache-2.0
"""What a point is on the wire: Prometheus' text and protobuf, OTLP."""
