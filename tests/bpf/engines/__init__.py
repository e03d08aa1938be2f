# SPDX-License-Identifier: Apache-2.0
"""The engines on programs whose every call is known."""
