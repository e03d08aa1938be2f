/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Stands in for the compiler's header, which bcc doesn't look for: the kernel's <linux/types.h> has the type. */
