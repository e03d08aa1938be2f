/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Stands in for libbpf's header of this name where the programs' headers are compiled for the host. */
#ifndef SSLL_HOST_CORE_READ_H
#define SSLL_HOST_CORE_READ_H

#include <linux/types.h>

/* The thread pointer of the made-up thread: all that is read of the kernel's memory where calls are judged. */
extern __u64 made_up_thread;

#undef preserve_access_index
#define preserve_access_index unused
#define BPF_CORE_READ(...) made_up_thread
#define BPF_CORE_READ_STR_INTO(destination, ...) ((void)(destination))

#endif
