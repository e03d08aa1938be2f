# SPDX-License-Identifier: Apache-2.0
"""What an OpenSSL keeps in tables: its methods, its default provider, and where calls through them lead."""
