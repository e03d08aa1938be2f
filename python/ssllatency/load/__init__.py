# SPDX-License-Identifier: Apache-2.0
"""Load generators: how s_time, h2load, ab and wrk are called and run, and how their output is read."""
