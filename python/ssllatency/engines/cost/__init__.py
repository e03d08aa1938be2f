# SPDX-License-Identifier: Apache-2.0
"""What tracing costs: the hits of probes, what each takes, and the processor time of the processes that pay for it."""
