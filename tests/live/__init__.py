# SPDX-License-Identifier: Apache-2.0
"""Live tests: real servers and clients on the loopback interface, and what a trace of them must count."""
