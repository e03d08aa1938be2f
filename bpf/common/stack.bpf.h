/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Keeps a program on the stack of the thread that it runs in.
 *
 * Since Linux 6.13 (commit a76ab5731e32) the x86 JIT gives a tracing program that uses 64 bytes of stack or more a private
 * stack in per-CPU memory. A uprobe program may be preempted, and nothing keeps the program of the next thread from running on
 * the same CPU meanwhile: it would overwrite that stack, and the first program would go on with wild pointers in kernel mode. A
 * program with a tail call gets no private stack. The one here is never made: the verifier sees so, and removes it.
 */
#ifndef STACK_BPF_H
#define STACK_BPF_H

#include <bpf/bpf_helpers.h>

/* What bcc needs to know of a map, in its definition. */
#ifndef SSLL_MAP
#define SSLL_MAP(name)
#endif

/* An array for the tail call of programs of one type and one way of attaching: the kernel lets no others share it. */
#define DEFINE_EMPTY_PROG_ARRAY(name)                                                                                          \
	struct {                                                                                                               \
		SSLL_MAP(name);                                                                                                \
		__uint(type, BPF_MAP_TYPE_PROG_ARRAY);                                                                         \
		__uint(max_entries, 1);                                                                                        \
		__type(key, __u32);                                                                                            \
		__type(value, __u32);                                                                                          \
	} name SEC(".maps")

/* To be the first statement of every program. `array` holds no program. */
#define STAY_ON_THREAD_STACK(ctx, array)                                                                                       \
	do {                                                                                                                   \
		__u64 never_ = 0;                                                                                              \
		asm volatile("" : "+r"(never_)); /* or the compiler would remove the call, before the kernel has seen it */    \
		if (never_)                                                                                                    \
			bpf_tail_call(ctx, &array, 0);                                                                         \
	} while (0)

#endif
