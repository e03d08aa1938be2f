# SPDX-License-Identifier: Apache-2.0
"""The sockets on which processes listen: which ports, and how often their accept queues were full."""
