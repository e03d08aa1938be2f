// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Reads who shook hands on what a test says is an SSL, in the test's own memory (BPF_PROG_RUN of a syscall program). */
#define __TARGET_ARCH_x86 /* no register is read */

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "handshakes/endpoints.bpf.h"
#include "handshakes/labels.bpf.h"

struct who_probe {
	__u64 ssl;
	__u32 server;
	__u32 keeps;   /* 1: the handshake goes on, and what its socket tells is kept */
	__u32 in_call; /* 1: it ends in a call */
	__u32 pad;
	struct ssll_labels labels;
};

struct who_probe probe SEC(".data.probe") = {};

SEC("syscall")
int run_who(void *ctx)
{
	struct ssll_labels labels = {.ending = probe.labels.ending};
	struct ssll_library *library = library_of(0);

	(void)ctx;
	if (!library)
		return 1;
	if (probe.keeps) {
		keep_endpoint(probe.ssl, library, probe.server, 0);
		return 0;
	}
	read_labels(probe.ssl, library, &labels);
	read_names(probe.ssl, library, &labels);
	find_endpoint(probe.ssl, library, probe.server, probe.in_call, 0, &labels);
	probe.labels = labels;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
