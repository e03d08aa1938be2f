# SPDX-License-Identifier: Apache-2.0
"""What is sent to an OTLP receiver, and when again."""
