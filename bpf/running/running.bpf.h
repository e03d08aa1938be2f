/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The handshakes that run, one record for each SSL; their calls that run, by their place on the stack; and which handshake a
 * thread works for. There are as many such calls as threads inside one; what never ends is pushed out.
 */
#ifndef RUNNING_BPF_H
#define RUNNING_BPF_H

#include "handshake.h"
#include "common/registers.bpf.h"
#include "common/slots.bpf.h"
#include "running/shares.bpf.h"

/* The oldest goes where there is no room: then `created` minus `ended` is more than the maps hold. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 131072);
	__type(key, struct ssll_handshake_key);
	__type(value, struct ssll_handshake);
} handshakes SEC(".maps");

/* Those of processes that have more than their share of them. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 32768);
	__type(key, struct ssll_handshake_key);
	__type(value, struct ssll_handshake);
} excess_handshakes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ssll_handshake);
} blank_handshake SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct ssll_thread);
} threads SEC(".maps");

static __always_inline __u64 at_most(__u64 time_ns, __u64 most_ns)
{
	return time_ns < most_ns ? time_ns : most_ns;
}

static __always_inline __u64 less(__u64 time_ns, __u64 taken_ns)
{
	return time_ns > taken_ns ? time_ns - taken_ns : 0;
}

static __always_inline struct ssll_handshake *find_handshake(__u64 ssl, __u32 tgid)
{
	struct ssll_handshake_key key = {.ssl = ssl, .tgid = tgid};
	struct ssll_handshake *handshake = ssl ? bpf_map_lookup_elem(&handshakes, &key) : NULL;

	return handshake || !ssl || !is_excess_used() ? handshake : bpf_map_lookup_elem(&excess_handshakes, &key);
}

static __always_inline struct ssll_thread *find_thread(void)
{
	__u32 tid = this_thread();

	return bpf_map_lookup_elem(&threads, &tid);
}

/* The handshake that this thread works for now; NULL where it is in no call of a handshake. */
static __always_inline struct ssll_handshake *handshake_of_thread(const struct ssll_thread *thread)
{
	struct ssll_handshake *handshake = thread ? find_handshake(thread->ssl, this_process()) : NULL;

	return handshake && handshake->depth ? handshake : NULL;
}

static __always_inline struct ssll_handshake *current_handshake(void)
{
	return handshake_of_thread(find_thread());
}

/* Part 0, the wall time, is set at the end, so what a part that isn't open adds to it has no effect. */
static __always_inline void add_part(struct ssll_handshake *handshake, __u64 part, __u64 duration_ns)
{
	asm volatile("" : "+r"(part)); /* else the compiler checks another register than the one it indexes with */
	if (part < SSLL_PARTS)
		handshake->parts[part] += duration_ns;
}

const struct ssll_thread blank_thread = {};

static __always_inline struct ssll_thread *lookup_or_init_thread(void)
{
	__u32 tid = this_thread();

	return lookup_or_init(&threads, &tid, &blank_thread);
}

/* Whether there is a blank handshake of that key now. */
static __always_inline bool init_handshake(const struct ssll_handshake_key *key)
{
	__u32 zero = 0;
	const struct ssll_handshake *blank = bpf_map_lookup_elem(&blank_handshake, &zero);
	__u64 *entries = entries_of(key->tgid, SSLL_SHARED_HANDSHAKES);

	if (!blank || !entries)
		return false;
	if ((__s64)*entries >= handshake_config.most_handshakes)
		return !bpf_map_update_elem(use_excess(&excess_handshakes), key, blank, BPF_ANY);
	if (bpf_map_update_elem(&handshakes, key, blank, BPF_NOEXIST))
		return false;
	count(entries);
	return true;
}

static __always_inline struct ssll_handshake *open_handshake(__u64 ssl, __u32 tgid, __u16 library, __u64 now)
{
	struct ssll_handshake_key key = {.ssl = ssl, .tgid = tgid};
	struct ssll_handshake *handshake = init_handshake(&key) ? find_handshake(ssl, tgid) : NULL;

	if (!handshake)
		return NULL;
	count(&handshake_counters.created);
	handshake->began_ns = handshake->since_ns = now;
	handshake->library = library;
	return handshake;
}

/* The handshake has ended, and its SSL is remembered until it is freed. */
static __always_inline void mark_ended(struct ssll_handshake *handshake)
{
	handshake->flags |= SSLL_FLAG_ENDED;
	count(&handshake_counters.ended);
}

/* Whether there was one to forget. */
static __always_inline bool forget_handshake(__u64 ssl, __u32 tgid)
{
	struct ssll_handshake_key key = {.ssl = ssl, .tgid = tgid};

	if (bpf_map_delete_elem(&handshakes, &key))
		return is_excess_used() && !bpf_map_delete_elem(&excess_handshakes, &key);
	release_entry(tgid, SSLL_SHARED_HANDSHAKES);
	return true;
}

static __always_inline void close_handshake(__u64 ssl, __u32 tgid)
{
	if (forget_handshake(ssl, tgid))
		count(&handshake_counters.ended);
}

/* The calls that run. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SSLL_STARTS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ssll_call_slot);
} call_slots SEC(".maps");

DEFINE_SLOTS(call_slots, struct ssll_call_slot)

/* Those that found no slot. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SSLL_OPEN_CALLS);
	__type(key, struct ssll_start_key);
	__type(value, struct ssll_open_call);
} open_calls SEC(".maps");

/* Those of processes that have more than their share of them. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SSLL_EXCESS_CALLS);
	__type(key, struct ssll_start_key);
	__type(value, struct ssll_open_call);
} excess_calls SEC(".maps");

enum {
	NO_WAY = SSLL_WAYS,
};

static __always_inline __u32 way_of_slot(const struct ssll_call_slot *slot)
{
	return slot ? slot->tag & (SSLL_WAYS - 1) : NO_WAY;
}

/* In which of its slots the call lies, or NO_WAY. Not static, as the next one: verified once, not for each way with all that
 * comes after it. */
__noinline __u32 find_way(__u64 tag, __u32 first_slot)
{
	struct table_place place = {.tag = tag, .slot = first_slot};

	return way_of_slot(find_in_call_slots(&place));
}

/* The same, of a call that begins: in place of what was left there by one that never ended, or in a free slot. */
__noinline __u32 claim_way(__u64 tag, __u32 first_slot)
{
	struct table_place place = {.tag = tag, .slot = first_slot};
	struct ssll_call_slot *slot = find_in_call_slots(&place);

	return way_of_slot(slot ? slot : claim_in_call_slots(&place));
}

static __always_inline struct ssll_call_slot *slot_of_call(const struct table_place *place, __u32 way)
{
	return way < SSLL_WAYS ? slot_in_call_slots(place, way) : NULL;
}

/* Whether any call has found no slot. */
static __always_inline bool are_calls_spilled(void)
{
	return *(volatile __u64 *)&handshake_counters.calls_spilled;
}

static __always_inline struct ssll_open_call *find_spilled_call(const struct ssll_start_key *key)
{
	struct ssll_open_call *call = are_calls_spilled() ? bpf_map_lookup_elem(&open_calls, key) : NULL;

	return call || !is_excess_used() ? call : bpf_map_lookup_elem(&excess_calls, key);
}

static __always_inline struct ssll_call_slot *find_call_slot(const struct ssll_start_key *key)
{
	struct table_place place = place_of(key);

	return slot_of_call(&place, fits_table(key) ? find_way(place.tag, place.slot) : NO_WAY);
}

static __always_inline struct ssll_open_call *find_open_call(const struct ssll_start_key *key)
{
	struct ssll_call_slot *slot = find_call_slot(key);

	return slot ? &slot->call : find_spilled_call(key);
}

static __noinline int forget_spilled_call(const struct ssll_start_key *key)
{
	if (are_calls_spilled() && !bpf_map_delete_elem(&open_calls, key))
		release_entry(key->tgid, SSLL_SHARED_CALLS);
	if (is_excess_used())
		bpf_map_delete_elem(&excess_calls, key);
	return 0;
}

static __noinline int spill_call(const struct ssll_start_key *key, __u64 ssl, __u64 outer)
{
	const struct ssll_open_call call = {.ssl = ssl, .outer = outer};
	__u64 *entries = entries_of(key->tgid, SSLL_SHARED_CALLS);

	if (!entries)
		return 0;
	*(volatile __u64 *)&handshake_counters.calls_spilled = 1;
	if ((__s64)*entries < MOST_OF(SSLL_OPEN_CALLS) && !bpf_map_update_elem(&open_calls, key, &call, BPF_NOEXIST))
		count(entries);
	else if (bpf_map_update_elem(&open_calls, key, &call, BPF_EXIST))
		bpf_map_update_elem(use_excess(&excess_calls), key, &call, BPF_ANY);
	return 0;
}

/* In place of what was left there by a call that never ended, wherever that lies. Not inlined: what it needs of the stack, its
 * callers have not. */
static __noinline int keep_open_call(const struct ssll_start_key *key, __u64 ssl, __u64 outer)
{
	struct table_place place = place_of(key);
	struct ssll_call_slot *slot;

	slot = slot_of_call(&place, fits_table(key) ? claim_way(place.tag, place.slot) : NO_WAY);
	if (!slot)
		return spill_call(key, ssl, outer);
	slot->call.ssl = ssl;
	slot->call.outer = outer;
	if (are_calls_spilled())
		forget_spilled_call(key);
	return 0;
}

/* Takes the call out; false where it isn't known to have begun. */
static __always_inline bool take_open_call(const struct ssll_start_key *key, struct ssll_open_call *call)
{
	struct ssll_call_slot *slot = find_call_slot(key);
	struct ssll_open_call *spilled;

	if (slot) {
		*call = slot->call;
		give_back(&slot->tag);
		return true;
	}
	spilled = find_spilled_call(key);
	if (!spilled)
		return false;
	*call = *spilled;
	forget_spilled_call(key);
	return true;
}

#endif
