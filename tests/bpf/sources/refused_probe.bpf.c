// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A program that no verifier takes, after a listing of several thousand lines. */
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>

SEC("uprobe")
int reads_beyond_its_stack(struct pt_regs *ctx)
{
	volatile __u64 sum = 0;

	(void)ctx;
#pragma unroll
	for (int i = 0; i < 2000; i++)
		sum += bpf_ktime_get_ns();
	return *(volatile int *)((char *)&sum + sum);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
