// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Runs the kernel's bucket functions over values that a test chooses (BPF_PROG_RUN of a syscall program). */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "common/times.bpf.h"

#define VALUES 4096

struct probe_values {
	__u64 values[VALUES];
	__s32 exponential[VALUES];
	__u32 linear[VALUES];
	struct ssll_times times;
};

struct probe_values probe SEC(".data.probe") = {};

__noinline int one(__u32 i)
{
	__u64 value;

	if (i >= VALUES)
		return 0;
	value = probe.values[i];
	probe.exponential[i] = exponential_index(value ? value : 1);
	probe.linear[i] = linear_bucket(value, &config);
	add_time(&probe.times, value);
	return 0;
}

SEC("syscall")
int run_buckets(void *ctx)
{
	(void)ctx;
	for (__u32 i = 0; i < VALUES; i++)
		one(i);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
