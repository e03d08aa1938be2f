# SPDX-License-Identifier: Apache-2.0
"""Late arrivals, after the probes: files that have to be traced as well, processes that become targets, and what is said of
it."""
