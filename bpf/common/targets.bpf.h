/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The processes that are traced: a set of all that there can be, so that it is never full and a look-up is one load. */
#ifndef TARGETS_BPF_H
#define TARGETS_BPF_H

#include "ssllatency.h"
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

/* What bcc needs to know of a map, in its definition. */
#ifndef SSLL_MAP
#define SSLL_MAP(name)
#endif

struct {
	SSLL_MAP(targets);
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SSLL_TARGET_WORDS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ssll_targets);
} targets SEC(".maps");

static __always_inline __u32 this_process(void)
{
	return bpf_get_current_pid_tgid() >> 32;
}

static __always_inline __u32 this_thread(void)
{
	return bpf_get_current_pid_tgid();
}

static __always_inline struct ssll_targets *target_word(__u32 tgid)
{
	__u32 number = tgid >> 6;

	return bpf_map_lookup_elem(&targets, &number);
}

static __always_inline __u64 target_bit(__u32 tgid)
{
	return 1ULL << (tgid & 63);
}

/* Adds a process to the set; writes only where it isn't in it. */
static __always_inline void add_target(__u32 tgid)
{
	struct ssll_targets *word = target_word(tgid);

	if (word && !(*(volatile __u64 *)&word->kin & target_bit(tgid)))
		__sync_fetch_and_or(&word->kin, target_bit(tgid));
}

static __always_inline bool is_target(__u32 tgid)
{
	struct ssll_targets *word = target_word(tgid);

	return word && (word->kin | word->members) & target_bit(tgid);
}

#endif
