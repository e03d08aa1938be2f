# SPDX-License-Identifier: Apache-2.0
"""What is shipped beside the commands: the demo, the examples, the installation."""
