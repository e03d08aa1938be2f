# SPDX-License-Identifier: Apache-2.0
"""Programs and servers of Go, each call and handshake held against what they and their clients count."""
