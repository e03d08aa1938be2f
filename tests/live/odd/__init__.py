# SPDX-License-Identifier: Apache-2.0
"""Programs that use their TLS libraries in ways that are allowed, or happen, and are odd."""
