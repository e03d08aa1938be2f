# SPDX-License-Identifier: Apache-2.0
"""s2n-tls, in programs of Rust."""
