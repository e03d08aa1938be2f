/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Calls that run: begun at an entry site, taken out at the exit. No lock, and no helper call but in the rare overflow. */
#ifndef STARTS_BPF_H
#define STARTS_BPF_H

#include "maps.bpf.h"
#include "registers.bpf.h"

struct {
	SSLL_MAP(starts);
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SSLL_STARTS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ssll_start);
} starts SEC(".maps");

struct {
	SSLL_MAP(overflow);
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SSLL_OVERFLOW);
	__type(key, struct ssll_start_key);
	__type(value, struct ssll_start);
} overflow SEC(".maps");

/* How many calls in overflow are of the processes with these lowest bits: so that one that fills it leaves room for others. */
struct {
	SSLL_MAP(shares);
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SSLL_SHARES);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} shares SEC(".maps");

static __always_inline __u64 *ssll_share(const struct ssll_start_key *key)
{
	__u32 number = key->tgid & (SSLL_SHARES - 1);

	return bpf_map_lookup_elem(&shares, &number);
}

/* Where a call lies: its tag without the way, and the number of its first slot. */
struct ssll_place {
	__u64 tag;
	__u32 slot;
};

static __always_inline struct ssll_place ssll_place(const struct ssll_start_key *key)
{
	struct ssll_place place;
	__u64 mixed;

	place.tag = 1ULL << 63 | (__u64)key->operation << SSLL_TAG_OPERATION | (__u64)key->tgid << SSLL_TAG_TGID |
	            key->stack >> (SSLL_TABLE_BITS + 3) << SSLL_TAG_STACK;
	mixed = place.tag * 0x9e3779b97f4a7c15ULL >> (64 - SSLL_TABLE_BITS);
	place.slot = (key->stack >> 3) ^ mixed;
	return place;
}

static __always_inline bool ssll_in_table(const struct ssll_start_key *key)
{
	return key->stack >> 48 == 0;
}

static __always_inline struct ssll_start *ssll_slot(const struct ssll_place *place, __u32 way)
{
	__u32 number = (place->slot + way) & (SSLL_STARTS - 1);

	return bpf_map_lookup_elem(&starts, &number);
}

/* The slot that holds the call, or NULL. */
static __always_inline struct ssll_start *ssll_find(const struct ssll_place *place)
{
#pragma unroll
	for (__u32 way = 0; way < SSLL_WAYS; way++) {
		struct ssll_start *slot = ssll_slot(place, way);

		if (slot && slot->tag == (place->tag | way))
			return slot;
	}
	return NULL;
}

/* A free slot made the call's, or NULL. The exchange fails where another thread takes the slot at the same time. */
static __always_inline struct ssll_start *ssll_claim(const struct ssll_place *place)
{
#pragma unroll
	for (__u32 way = 0; way < SSLL_WAYS; way++) {
		struct ssll_start *slot = ssll_slot(place, way);

		if (slot && !slot->tag && !__sync_val_compare_and_swap(&slot->tag, 0, place->tag | way))
			return slot;
	}
	return NULL;
}

static __always_inline void ssll_begin_in_overflow(const struct ssll_start_key *key, __u64 ssl)
{
	struct ssll_start start = {.tag = 1, .began_ns = bpf_ktime_get_ns(), .ssl = ssl};
	__u64 *share = ssll_share(key);

	if (share && (__s64)*share < SSLL_SHARE && !bpf_map_update_elem(&overflow, key, &start, BPF_NOEXIST)) {
		count(share);
		return;
	}
	if (bpf_map_update_elem(&overflow, key, &start, BPF_EXIST))
		count(&account.map_full);
	else
		count(&account.unmatched_entries);
}

/* A record at the very place is that of a call which never ended: its frame is gone, for the new one lies there. */
static __always_inline void ssll_begin(const struct ssll_start_key *key, __u64 ssl)
{
	struct ssll_place place = ssll_place(key);
	struct ssll_start *slot = NULL;

	if (ssll_in_table(key)) {
		slot = ssll_find(&place);
		if (slot)
			count(&account.unmatched_entries);
		else
			slot = ssll_claim(&place);
	}
	if (!slot) {
		ssll_begin_in_overflow(key, ssl);
		return;
	}
	slot->ssl = ssl;
	slot->began_ns = bpf_ktime_get_ns();
}

/* Takes the call out; false where it isn't known to have begun. */
static __always_inline bool ssll_end(const struct ssll_start_key *key, struct ssll_start *start)
{
	struct ssll_place place = ssll_place(key);
	struct ssll_start *slot = ssll_in_table(key) ? ssll_find(&place) : NULL;

	if (slot) {
		*start = *slot;
		give_back(&slot->tag);
		return true;
	}
	slot = bpf_map_lookup_elem(&overflow, key);
	if (!slot)
		return false;
	*start = *slot;
	if (!bpf_map_delete_elem(&overflow, key)) {
		__u64 *share = ssll_share(key);

		if (share)
			__sync_fetch_and_add(share, -1);
	}
	return true;
}

#endif
