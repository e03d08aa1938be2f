// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The borders of a call and of a phase in it, in the thread that a test runs these programs in (BPF_PROG_RUN). */
#define __TARGET_ARCH_x86 /* no register is read */

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "running/away.bpf.h"

struct borders_probe {
	struct ssll_thread thread;
	struct ssll_handshake handshake;
};

struct borders_probe probe SEC(".data.probe") = {};

static __always_inline void begin(void)
{
	__u64 now = bpf_ktime_get_ns();

	probe.handshake.since_ns = now;
	begin_away(&probe.thread, now);
}

static __always_inline void end(void)
{
	add_away(&probe.handshake, &probe.thread, bpf_ktime_get_ns());
}

SEC("syscall")
int begin_call(void *ctx)
{
	(void)ctx;
	begin();
	return 0;
}

SEC("syscall")
int begin_phase(void *ctx)
{
	(void)ctx;
	begin_phase_away(&probe.thread, bpf_ktime_get_ns());
	return 0;
}

SEC("syscall")
int end_phase(void *ctx)
{
	(void)ctx;
	end_phase_away(&probe.thread, bpf_ktime_get_ns());
	return 0;
}

SEC("syscall")
int end_call(void *ctx)
{
	(void)ctx;
	end();
	return 0;
}

/* A call with a phase, in which the thread keeps its processor, or nearly always does. */
SEC("syscall")
int short_call(void *ctx)
{
	(void)ctx;
	begin();
	begin_phase_away(&probe.thread, bpf_ktime_get_ns());
	end_phase_away(&probe.thread, bpf_ktime_get_ns());
	end();
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
