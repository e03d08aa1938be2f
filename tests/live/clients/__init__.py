# SPDX-License-Identifier: Apache-2.0
"""TLS clients whose connections are known one by one."""
