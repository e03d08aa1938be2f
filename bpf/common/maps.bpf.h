/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What every object has: configuration, counters of what was missed, targets, libraries. */
#ifndef MAPS_BPF_H
#define MAPS_BPF_H

#include "ssllatency.h"
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#include "common/stack.bpf.h"
#include "common/targets.bpf.h"

#ifdef SSLL_VALUE
#define config (*(const volatile struct ssll_config *)SSLL_VALUE(config))
#define counters (*(struct ssll_counters *)SSLL_VALUE(counters))
#else
/* Sections of their own, so that user space finds each as one value. */
const volatile struct ssll_config config SEC(".rodata.config") = {
        .linear_step_ns = 200000,
        .linear_buckets = 5,
        .linear_reciprocal = (1ULL << 32) / 200000,
};

struct ssll_counters counters SEC(".data.counters") = {};
#endif

struct {
	SSLL_MAP(libraries);
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct ssll_library);
} libraries SEC(".maps");

/* Where tables by process have this one. */
static __always_inline __u32 process_slot(__u32 tgid)
{
	__u64 block = tgid >> SSLL_PROCESS_SLOT_BITS;

	return (tgid ^ block * config.slot_secret >> (64 - SSLL_PROCESS_SLOT_BITS)) & (SSLL_PROCESS_SLOTS - 1);
}

static __always_inline void count(__u64 *counter)
{
	__sync_fetch_and_add(counter, 1);
}

/* The same, after whatever was written before, and before whatever is written later: only the instruction that fetches keeps
 * that order on every processor. */
static __always_inline void count_in_order(__u64 *counter)
{
	__u64 before = __sync_fetch_and_add(counter, 1);

	asm volatile("" ::"r"(before));
}

#ifndef lookup_or_init /* bcc's is a macro, which knows the map's type */
/* The map's value at the key, made as `init` at its first use; NULL where there is no room, or no `init`. */
static __always_inline void *lookup_or_init(void *map, const void *key, const void *init)
{
	void *value = bpf_map_lookup_elem(map, key);

	if (value || !init)
		return value;
	bpf_map_update_elem(map, key, init, BPF_NOEXIST); /* EEXIST: another thread was first */
	return bpf_map_lookup_elem(map, key);
}
#endif

/* Counts a call at its counter; NULL where a map had no room for that. */
static __always_inline void count_or_map_full(__u64 *counter)
{
	count(counter ? counter : &counters.map_full);
}

/* Whether SSLs of this side count. */
static __always_inline bool is_wanted_side(bool server)
{
	return config.role == SSLL_ANY || (config.role == SSLL_SERVER) == server;
}

static __always_inline bool is_traced(__u32 tgid)
{
	return !config.filter_tgid || is_target(tgid);
}

/* The same of a call of this library: one that was taken along with another counts where the other is called. */
static __always_inline bool is_traced_in(__u32 tgid, __u32 index)
{
	struct ssll_library *library;

	if (!is_traced(tgid))
		return false;
	if (!config.companions)
		return true;
	library = bpf_map_lookup_elem(&libraries, &index);
	if (library && library->companion)
		return is_target(tgid);
	add_target(tgid);
	return true;
}

/* Whether the run is over and its probes are only on their way out. */
static __always_inline bool is_stopped(void)
{
	return *(volatile __u64 *)&counters.stopped;
}

/* The first statement of every uprobe program. `array` as for STAY_ON_THREAD_STACK. */
#define BEGIN_UPROBE(ctx, array)                                                                                               \
	do {                                                                                                                   \
		STAY_ON_THREAD_STACK(ctx, array);                                                                              \
		if (is_stopped())                                                                                              \
			return 0;                                                                                              \
	} while (0)

#endif
