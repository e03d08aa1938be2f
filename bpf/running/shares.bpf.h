/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A fair share of the tables for each process: what one of them has too many of doesn't push out what others have.
 *
 * Each process may fill most of a table. Handshakes and calls beyond that lie in a smaller table, which is consulted only after
 * some process has exceeded its share; rows beyond it count as if the table were full.
 */
#ifndef SHARES_BPF_H
#define SHARES_BPF_H

#include "handshake.h"
#include "common/maps.bpf.h"

#define MOST_OF(size) ((size) / 4 * 3)

const volatile struct ssll_handshake_config handshake_config SEC(".rodata.handshake_config") = {
        .most_handshakes = MOST_OF(131072),
        .most_rows = MOST_OF(64),
        .most_texts = MOST_OF(64),
};

struct ssll_handshake_counters handshake_counters SEC(".data.handshake_counters") = {.threshold_ns = ~0ULL};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SSLL_PROCESS_SLOTS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ssll_holding);
} holdings SEC(".maps");

/* How many entries the process has in the table. */
static __always_inline __u64 *entries_of(__u32 tgid, enum ssll_shared table)
{
	__u32 number = process_slot(tgid);
	struct ssll_holding *holding = bpf_map_lookup_elem(&holdings, &number);

	return holding ? &holding->entries[table] : NULL;
}

/* The process has one entry less in the table. */
static __always_inline void release_entry(__u32 tgid, enum ssll_shared table)
{
	__u64 *entries = entries_of(tgid, table);

	if (entries)
		__sync_fetch_and_add(entries, -1);
}

/* Whether any process has had more than its share. */
static __always_inline bool is_excess_used(void)
{
	return *(volatile __u64 *)&handshake_counters.excess_used;
}

/* The table for what is beyond a share, which from now on is looked into. */
static __always_inline void *use_excess(void *map)
{
	*(volatile __u64 *)&handshake_counters.excess_used = 1;
	return map;
}

/* As lookup_or_init, but NULL as well where this process has made `most` entries of the table. */
static __always_inline void *lookup_or_init_shared(
        void *map, const void *key, const void *init, enum ssll_shared table, __s64 most)
{
	void *value = bpf_map_lookup_elem(map, key);
	__u64 *entries = value ? NULL : entries_of(this_process(), table);

	if (!entries || (__s64)*entries >= most || !init)
		return value;
	if (!bpf_map_update_elem(map, key, init, BPF_NOEXIST)) /* else another thread was first */
		count(entries);
	return bpf_map_lookup_elem(map, key);
}

#endif
