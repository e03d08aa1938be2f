// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Asks whether what a test says is an SSL is without TCP, in the test's own memory (BPF_PROG_RUN of a syscall program). */
#define __TARGET_ARCH_x86 /* no register is read */

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "handshakes/text_share.bpf.h"
#include "labels/quic.bpf.h"

struct transports_probe {
	__u64 ssl;
	__u32 without_tcp;
	__u32 tells; /* whether its library would show it of each */
};

struct transports_probe probe SEC(".data.probe") = {};

SEC("syscall")
int run_transports(void *ctx)
{
	struct ssll_library *library = library_of(0);

	(void)ctx;
	if (!library)
		return 1;
	probe.without_tcp = is_without_tcp(probe.ssl, library);
	probe.tells = tells_without_tcp(library);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
