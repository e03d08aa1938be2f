# SPDX-License-Identifier: Apache-2.0
"""Mbed TLS, shared or within a program: its functions return negative codes, and its contexts are read by its accessors."""
