/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A fair share of the tables for each process: what one of them has too many of doesn't push out what others have.
 *
 * Each process may fill most of a table. Handshakes and calls beyond that lie in a smaller table, which is only looked into
 * once any process has come to that; rows beyond it count as where the table is full.
 */
#ifndef HANDSHAKES_SHARES_BPF_H
#define HANDSHAKES_SHARES_BPF_H

#include "handshake.h"
#include "common/maps.bpf.h"

#define MOST_OF(room) ((room) / 4 * 3)

const volatile struct ssll_handshake_config handshake_config SEC(".rodata.handshake_config") = {
        .most_handshakes = MOST_OF(131072),
        .most_rows = MOST_OF(64),
};

struct ssll_handshake_counters handshake_counters SEC(".data.handshake_counters") = {.threshold_ns = ~0ULL};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SSLL_SHARES);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ssll_holding);
} holdings SEC(".maps");

static __always_inline struct ssll_holding *holding_of(__u32 tgid)
{
	__u32 number = tgid & (SSLL_SHARES - 1);

	return bpf_map_lookup_elem(&holdings, &number);
}

/* One less that the process has in the table of this name. */
#define give_up(tgid, table)                                                                                                   \
	do {                                                                                                                   \
		struct ssll_holding *holding_ = holding_of(tgid);                                                              \
                                                                                                                               \
		if (holding_)                                                                                                  \
			__sync_fetch_and_add(&holding_->table, -1);                                                            \
	} while (0)

/* Whether any process has had more than its share. */
static __always_inline bool crowded(void)
{
	return *(volatile __u64 *)&handshake_counters.crowded;
}

/* The table, which from now on is looked into. */
static __always_inline void *crowd(void *table)
{
	*(volatile __u64 *)&handshake_counters.crowded = 1;
	return table;
}

/* As FOUND_OR_MADE, but NULL as well where this process has made as many as it may. `made`: its number of them in a holding. */
#define FOUND_OR_FAIRLY_MADE(map, key, blank, made, most)                                                                      \
	({                                                                                                                     \
		const void *wanted_ = key;                                                                                     \
		__typeof__((map)->value) row_ = bpf_map_lookup_elem(map, wanted_), empty_;                                     \
		struct ssll_holding *holding_ = row_ ? NULL : holding_of(this_process());                                      \
                                                                                                                               \
		if (holding_ && (__s64)holding_->made < (most) && (empty_ = (void *)(blank))) {                                \
			if (!bpf_map_update_elem(map, wanted_, empty_, BPF_NOEXIST)) /* else another thread was first */       \
				count(&holding_->made);                                                                        \
			row_ = bpf_map_lookup_elem(map, wanted_);                                                              \
		}                                                                                                              \
		row_;                                                                                                          \
	})

#endif
