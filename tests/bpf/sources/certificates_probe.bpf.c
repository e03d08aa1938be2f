// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Numbers what a test says is a certificate, in the test's own memory (BPF_PROG_RUN of a syscall program). */
#define __TARGET_ARCH_x86 /* no register is read */

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "handshakes/tables.bpf.h"
#include "handshakes/certificates.bpf.h"

struct certificates_probe {
	__u64 encoding;
	__u64 signature;
	__u64 number;
};

struct certificates_probe probe SEC(".data.probe") = {};

SEC("syscall")
int run_certificates(void *ctx)
{
	(void)ctx;
	probe.number = number_of_certificate(probe.encoding, probe.signature);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
