/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counts the hits of probes, from which user space tells what they cost and whom: those of processes that don't count, too. */
#ifndef HITS_BPF_H
#define HITS_BPF_H

#ifndef SSLL_VALUE
#include "common/notices.bpf.h"
#endif
#include "common/maps.bpf.h"
#include "common/registers.bpf.h"
#include "common/targets.bpf.h"

struct {
	SSLL_MAP(hits);
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SSLL_PROCESS_SLOTS); /* times the number of processors, which user space knows */
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ssll_hits);
} hits SEC(".maps");

/* Whether user space is to hear of the hits of an entry when there are so many of a kind. */
static __always_inline bool is_worth_a_notice(__u64 counted)
{
	return counted == SSLL_HITS_FIRST_NOTICE || !(counted & (SSLL_HITS_A_NOTICE - 1));
}

/* Where nobody reads notices, or they find no room, user space sees the hits when it looks the next time. bcc's programs have
 * no ring. */
static __always_inline void tell_of_many(__u64 counted)
{
#ifndef SSLL_VALUE
	if (is_worth_a_notice(counted))
		notify(0, 0);
#endif
}

/* The thread may be moved to another processor in between, hence the atomic addition. */
static __always_inline void count_hit_of(enum ssll_hit kind)
{
	__u32 number = bpf_get_smp_processor_id() * SSLL_PROCESS_SLOTS + process_slot(this_process());
	struct ssll_hits *counted = bpf_map_lookup_elem(&hits, &number);

	if (counted)
		tell_of_many(__sync_fetch_and_add(&counted->of_kind[kind & (SSLL_HITS - 1)], 1) + 1);
}

/* The same of a site with this cookie; gives the cookie back. */
static __always_inline __u64 count_hit(__u64 cookie)
{
	count_hit_of(field(cookie, SSLL_COOKIE_HIT, 2));
	return cookie;
}

#endif
