# SPDX-License-Identifier: Apache-2.0
"""The servers and clients of the live tests, without tracing."""
