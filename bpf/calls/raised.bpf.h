/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * When libssl has last raised a fatal error, by thread. Since OpenSSL 3.2 what isn't TLS at all ("http request") leaves no mark
 * in the SSL, as no alert is sent: only an error in the queue. A call that succeeds raises none, and so costs nothing.
 */
#ifndef RAISED_BPF_H
#define RAISED_BPF_H

#include "common/maps.bpf.h"
#include "common/registers.bpf.h"

struct {
	SSLL_MAP(raised);
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u64);
} raised SEC(".maps");

/* A function by which libssl reports a fatal error is entered. */
static __always_inline int on_error(const struct pt_regs *ctx, __u64 cookie)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 tid = this_thread();

	(void)ctx;
	(void)cookie;
	if (is_traced(this_process()))
		bpf_map_update_elem(&raised, &tid, &now, BPF_ANY);
	return 0;
}

/* Whether this thread has raised one since. */
static __always_inline bool has_raised(__u64 since_ns)
{
	__u32 tid = this_thread();
	__u64 *at_ns = bpf_map_lookup_elem(&raised, &tid);

	return at_ns && *at_ns >= since_ns;
}

#endif
