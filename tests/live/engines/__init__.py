# SPDX-License-Identifier: Apache-2.0
"""The engines agree, with each other and with stock return probes."""
