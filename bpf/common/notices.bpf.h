/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What wakes user space: processes that become targets, and loads that come at once. All objects of a run share the ring. */
#ifndef NOTICES_BPF_H
#define NOTICES_BPF_H

#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#include "follow.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} notices SEC(".maps");

/* Whether there was room for it. */
static __always_inline bool notify(__u32 tgid, __u32 parent)
{
	struct ssll_notice *notice = bpf_ringbuf_reserve(&notices, sizeof(*notice), 0);

	if (!notice)
		return false;
	notice->at_ns = bpf_ktime_get_ns();
	notice->tgid = tgid;
	notice->parent = parent;
	bpf_ringbuf_submit(notice, 0);
	return true;
}

#endif
