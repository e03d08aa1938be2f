// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Reads and counts the labels of what a test says is an SSL, in the test's own memory (BPF_PROG_RUN of a syscall program). */
#define __TARGET_ARCH_x86 /* no register is read */

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "handshakes/tables.bpf.h"

struct labels_probe {
	__u64 ssl;
	struct ssll_labels labels;
};

struct labels_probe probe SEC(".data.probe") = {};

SEC("syscall")
int run_labels(void *ctx)
{
	struct ssll_labels labels = {.library = probe.labels.library};
	struct ssll_library *library = library_of(0);

	(void)ctx;
	if (!library)
		return 1;
	read_labels(probe.ssl, library, &labels);
	add_labels(&labels, 7);
	probe.labels = labels;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
