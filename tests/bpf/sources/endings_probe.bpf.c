// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Frees what a test says is an SSL, or ends its handshake in the way that it says (BPF_PROG_RUN of a syscall program). */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define __TARGET_ARCH_x86 /* no register is read */
#include "handshakes/calls.bpf.h"

struct endings_probe {
	__u64 ssl;
	__u32 end; /* handshake_end's word */
	__u32 error;
};

struct endings_probe probe SEC(".data.probe") = {};

SEC("syscall")
int begin_handshake(void *ctx)
{
	(void)ctx;
	open_handshake(probe.ssl, this_process(), 0, bpf_ktime_get_ns());
	return 0;
}

SEC("syscall")
int end_handshake(void *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	struct ssll_handshake *handshake;

	(void)ctx;
	open_handshake(probe.ssl, this_process(), 0, now);
	handshake = find_handshake(probe.ssl, this_process());
	if (!handshake)
		return 1;
	handshake->error = probe.error;
	return finish_handshake(handshake, probe.ssl, probe.end, now);
}

SEC("syscall")
int free_ssl(void *ctx)
{
	(void)ctx;
	return on_free(probe.ssl);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
