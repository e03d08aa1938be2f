# SPDX-License-Identifier: Apache-2.0
"""The HTTP server: paths, limits, TLS, basic authentication."""
