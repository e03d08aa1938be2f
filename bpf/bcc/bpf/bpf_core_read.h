/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stands in for libbpf's header of this name. bcc can't relocate, and the headers that it compiles with may be another
 * kernel's: instead of the name of the group's leader, that of the thread at hand is taken, and user space asks /proc for the
 * other.
 */
#ifndef SSLL_BCC_CORE_READ_H
#define SSLL_BCC_CORE_READ_H

/* Ours, beside the kernel's. */
#define atomic_t ssll_atomic_t
#define signal_struct ssll_signal_struct
#define task_struct ssll_task_struct
#define thread_struct ssll_thread_struct

#define BPF_CORE_READ_STR_INTO(destination, ...) bpf_get_current_comm(destination, sizeof(*(destination)))
#define BPF_CORE_READ(...) 0 /* in functions that no program of bcc's calls, or for stacks that it doesn't know */

#endif
