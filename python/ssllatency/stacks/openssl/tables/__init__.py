# SPDX-License-Identifier: Apache-2.0
"""Tables of an OpenSSL: its methods, its default provider, and where calls through them lead."""
