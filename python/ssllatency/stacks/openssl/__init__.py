# SPDX-License-Identifier: Apache-2.0
"""OpenSSL: its tables of methods and providers, accessors and the offsets that they show, hidden functions, names of codes."""
