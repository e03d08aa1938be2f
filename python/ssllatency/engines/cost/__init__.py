# SPDX-License-Identifier: Apache-2.0
"""The cost of tracing: the hits of probes, what each takes, and the processor time of the processes that pay for it."""
