/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The calls of handshakes that run, by their place on the stack. As many as threads are inside one; what never ends is pushed
 * out. */
#ifndef OPEN_CALLS_BPF_H
#define OPEN_CALLS_BPF_H

#include "holdings.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SSLL_OPEN_CALLS);
	__type(key, struct ssll_start_key);
	__type(value, struct ssll_open_call);
} open_calls SEC(".maps");

/* Those of processes that have more than their share of them. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SSLL_CROWDED_CALLS);
	__type(key, struct ssll_start_key);
	__type(value, struct ssll_open_call);
} crowded_calls SEC(".maps");

static __always_inline struct ssll_open_call *find_open_call(const struct ssll_start_key *key)
{
	struct ssll_open_call *call = bpf_map_lookup_elem(&open_calls, key);

	return call || !crowded() ? call : bpf_map_lookup_elem(&crowded_calls, key);
}

/* In place of what was left there by a call that never ended. */
static __always_inline void keep_open_call(const struct ssll_start_key *key, const struct ssll_open_call *call)
{
	struct ssll_holding *holding = holding_of(key->tgid);

	if (!holding)
		return;
	if ((__s64)holding->calls < MOST_OF(SSLL_OPEN_CALLS) && !bpf_map_update_elem(&open_calls, key, call, BPF_NOEXIST))
		count(&holding->calls);
	else if (bpf_map_update_elem(&open_calls, key, call, BPF_EXIST))
		bpf_map_update_elem(crowd(&crowded_calls), key, call, BPF_ANY);
}

static __always_inline void forget_open_call(const struct ssll_start_key *key)
{
	if (!bpf_map_delete_elem(&open_calls, key))
		give_up(key->tgid, calls);
	if (crowded())
		bpf_map_delete_elem(&crowded_calls, key);
}

#endif
