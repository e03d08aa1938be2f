# SPDX-License-Identifier: Apache-2.0
"""ssllatency's commands as a person would run them, and what they print."""
