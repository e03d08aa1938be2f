# SPDX-License-Identifier: Apache-2.0
"""Metrics for a fleet: what is counted, as series of a service or container, by scrape and by OTLP. One process traces;
another, without any privilege, speaks to the network."""
