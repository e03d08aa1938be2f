# SPDX-License-Identifier: Apache-2.0
"""Real Prometheus servers for tests: where their programs are, and how one is started."""
