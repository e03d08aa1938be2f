# SPDX-License-Identifier: Apache-2.0
"""What comes later than the probes: files that have to be traced as well, processes that become targets, and what is said of
it."""
