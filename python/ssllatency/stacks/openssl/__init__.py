# SPDX-License-Identifier: Apache-2.0
"""What is in a TLS library: tables of methods and providers, accessors and the offsets that they show, hidden functions."""
