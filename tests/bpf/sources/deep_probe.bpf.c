// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A program that takes little stack itself, and more than there is with the functions that it calls. */
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>

#include "common/stack.bpf.h"

DEFINE_EMPTY_PROG_ARRAY(no_uprobe_program);

static __always_inline int use(volatile __u64 *words, int count)
{
	for (int i = 0; i < count; i++)
		words[i] = i;
	return words[count / 2];
}

static __noinline int innermost(void)
{
	volatile __u64 words[25];

	return use(words, 25);
}

__noinline int within(int number)
{
	volatile __u64 words[33];

	return use(words, 33) + innermost() + number;
}

static __noinline int beside(void)
{
	volatile __u64 word[1];

	return use(word, 1);
}

SEC("uprobe")
int deep(struct pt_regs *ctx)
{
	STAY_ON_THREAD_STACK(ctx, no_uprobe_program);
	volatile __u64 words[5];

	return use(words, 5) + beside() + within(1);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
