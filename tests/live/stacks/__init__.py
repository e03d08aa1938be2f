# SPDX-License-Identifier: Apache-2.0
"""Programs with Mbed TLS, s2n-tls and wolfSSL."""
