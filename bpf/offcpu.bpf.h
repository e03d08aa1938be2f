/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How long threads were off the processor inside calls of handshakes: from one switch away to the next switch back. */
#ifndef OFFCPU_BPF_H
#define OFFCPU_BPF_H

#include "accounts.bpf.h"
#include <bpf/bpf_core_read.h>

struct task_struct {
	int pid;
} __attribute__((preserve_access_index));

static __always_inline int threads_switch(struct task_struct *from, struct task_struct *to)
{
	__u32 tid = BPF_CORE_READ(from, pid);
	struct ssll_thread *thread = bpf_map_lookup_elem(&threads, &tid);

	if (thread && thread->ssl)
		thread->off_since_ns = bpf_ktime_get_ns();
	tid = BPF_CORE_READ(to, pid);
	thread = bpf_map_lookup_elem(&threads, &tid);
	if (thread && thread->ssl && thread->off_since_ns) {
		thread->off_ns += bpf_ktime_get_ns() - thread->off_since_ns;
		thread->off_since_ns = 0;
	}
	return 0;
}

#endif
