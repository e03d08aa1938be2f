# SPDX-License-Identifier: Apache-2.0
"""Libraries of TLS other than the host's OpenSSL."""
