/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Calls that run, in slots of a table: a few neighbouring ones are looked at, so it takes neither a lock nor a helper's call.
 * What finds none of them free goes elsewhere. Each slot's first word is its tag (enum ssll_tag), which tells the whole key
 * together with the slot's number; 0 is a free one. User space frees those of processes that have ended (engines/bpf/slots.py).
 */
#ifndef SLOTS_BPF_H
#define SLOTS_BPF_H

#include "ssllatency.h"
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#include "common/registers.bpf.h"

/* Where a call lies: its tag without the way, and the number of its first slot. */
struct table_place {
	__u64 tag;
	__u32 slot;
};

static __always_inline struct table_place place_of(const struct ssll_start_key *key)
{
	struct table_place place;
	__u64 mixed;

	place.tag = 1ULL << 63 | (__u64)key->operation << SSLL_TAG_OPERATION | (__u64)key->tgid << SSLL_TAG_TGID |
	            key->stack >> (SSLL_TABLE_BITS + 3) << SSLL_TAG_STACK;
	mixed = place.tag * 0x9e3779b97f4a7c15ULL >> (64 - SSLL_TABLE_BITS);
	place.slot = (key->stack >> 3) ^ mixed;
	return place;
}

static __always_inline bool fits_table(const struct ssll_start_key *key)
{
	return key->stack >> 48 == 0;
}

/* The functions of a table of SSLL_STARTS slots of that type: slot_in_, find_in_ and claim_in_ its name. The first returns the
 * slot of a way. The second, the one that holds the call; the third, a free one that is the call's from now on; or NULL. Its
 * exchange fails where another thread takes the slot at the same time. */
#define DEFINE_SLOTS(table, type)                                                                                              \
	static __always_inline type *slot_in_##table(const struct table_place *place, __u32 way)                               \
	{                                                                                                                      \
		__u32 number = (place->slot + way) & (SSLL_STARTS - 1);                                                        \
                                                                                                                               \
		return bpf_map_lookup_elem(&table, &number);                                                                   \
	}                                                                                                                      \
                                                                                                                               \
	static __always_inline type *find_in_##table(const struct table_place *place)                                          \
	{                                                                                                                      \
		_Pragma("unroll") for (__u32 way = 0; way < SSLL_WAYS; way++)                                                  \
		{                                                                                                              \
			type *slot = slot_in_##table(place, way);                                                              \
                                                                                                                               \
			if (slot && slot->tag == (place->tag | way))                                                           \
				return slot;                                                                                   \
		}                                                                                                              \
		return NULL;                                                                                                   \
	}                                                                                                                      \
                                                                                                                               \
	static __always_inline type *claim_in_##table(const struct table_place *place)                                         \
	{                                                                                                                      \
		_Pragma("unroll") for (__u32 way = 0; way < SSLL_WAYS; way++)                                                  \
		{                                                                                                              \
			type *slot = slot_in_##table(place, way);                                                              \
                                                                                                                               \
			if (slot && !slot->tag && !__sync_val_compare_and_swap(&slot->tag, 0, place->tag | way))               \
				return slot;                                                                                   \
		}                                                                                                              \
		return NULL;                                                                                                   \
	}

#endif
