// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Two uprobe programs with more than 64 bytes of stack: one as it comes, and one that stays on the thread's stack. */
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>

#include "common/stack.bpf.h"

DEFINE_EMPTY_PROG_ARRAY(no_uprobe_program);

static __always_inline int use_stack(void)
{
	volatile char room[128];

	for (int i = 0; i < 128; i += 8)
		*(volatile __u64 *)&room[i] = i;
	return *(volatile __u64 *)&room[64];
}

SEC("uprobe")
int unguarded(struct pt_regs *ctx)
{
	(void)ctx;
	return use_stack();
}

SEC("uprobe")
int guarded(struct pt_regs *ctx)
{
	STAY_ON_THREAD_STACK(ctx, no_uprobe_program);
	return use_stack();
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
