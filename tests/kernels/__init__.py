# SPDX-License-Identifier: Apache-2.0
"""Other kernels: Debian's own, booted under QEMU, with the checkout run in the guest.

The host's side fetches (`packages`, `debian`, `images`), boots (`plans`, `machine`, `guests`) and judges (`console`, `table`);
`guest` is what runs in there.
"""
