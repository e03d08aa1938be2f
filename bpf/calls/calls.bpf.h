/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From probe hits to finished calls: paired, their outcome judged. Included by the objects that watch calls; each defines what
 * is done when a call begins and with one that has ended. Both are inlined, so what isn't used costs nothing.
 *
 * A call that runs is stored at an entry site and taken out at the exit: no lock, and no helper call but in the rare overflow.
 */
#ifndef CALLS_CALLS_BPF_H
#define CALLS_CALLS_BPF_H

#include "calls/raised.bpf.h"
#include "calls/side.bpf.h"
#include "common/maps.bpf.h"
#include "common/registers.bpf.h"
#include "common/slots.bpf.h"
#include "common/tiers.bpf.h"
#include "stacks/outcome.bpf.h"

struct {
	SSLL_MAP(starts);
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SSLL_STARTS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ssll_start);
} starts SEC(".maps");

DEFINE_SLOTS(starts, struct ssll_start)

struct {
	SSLL_MAP(overflow);
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SSLL_OVERFLOW);
	__type(key, struct ssll_start_key);
	__type(value, struct ssll_start);
} overflow SEC(".maps");

/* How many calls in overflow are of the processes of a slot: so that one that fills it leaves room for others. */
struct {
	SSLL_MAP(shares);
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SSLL_PROCESS_SLOTS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} shares SEC(".maps");

static __always_inline __u64 *share_of(const struct ssll_start_key *key)
{
	__u32 number = process_slot(key->tgid);

	return bpf_map_lookup_elem(&shares, &number);
}

static __always_inline void store_in_overflow(const struct ssll_start_key *key, __u64 ssl)
{
	struct ssll_start start = {.tag = 1, .began_ns = bpf_ktime_get_ns(), .ssl = ssl};
	__u64 *share = share_of(key);

	if (share && (__s64)*share < SSLL_SHARE && !bpf_map_update_elem(&overflow, key, &start, BPF_NOEXIST)) {
		count(share);
		return;
	}
	if (bpf_map_update_elem(&overflow, key, &start, BPF_EXIST))
		count(&counters.map_full);
	else
		count(&counters.unmatched_entries);
}

static __always_inline bool is_start_of(const struct ssll_start *start, __u64 ssl)
{
	return start && start->ssl == ssl;
}

/* A record at the very place is that of a call which never ended: its frame is gone, for the new one lies there. Unless the
 * call itself may come by `again`. */
static __always_inline void store_start(const struct ssll_start_key *key, __u64 ssl, bool again)
{
	struct table_place place = place_of(key);
	struct ssll_start *slot = NULL;

	if (fits_table(key))
		slot = find_in_starts(&place);
	if (again && is_start_of(slot ? slot : bpf_map_lookup_elem(&overflow, key), ssl))
		return;
	if (slot)
		count(&counters.unmatched_entries);
	else if (fits_table(key))
		slot = claim_in_starts(&place);
	if (!slot) {
		store_in_overflow(key, ssl);
		return;
	}
	slot->ssl = ssl;
	slot->began_ns = bpf_ktime_get_ns();
}

/* Takes the call out; false where it isn't known to have begun. */
static __always_inline bool take_start(const struct ssll_start_key *key, struct ssll_start *start)
{
	struct table_place place = place_of(key);
	struct ssll_start *slot = fits_table(key) ? find_in_starts(&place) : NULL;

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
		__u64 *share = share_of(key);

		if (share)
			__sync_fetch_and_add(share, -1);
	}
	return true;
}

/* A call that has ended. `key` is what it was known by while it ran. */
struct ended_call {
	struct ssll_start_key key;
	struct verdict verdict;
	__u64 ended_ns;
	__u64 duration_ns;
	__u64 returned;
	__u32 convention;
	__u32 library;
	__u64 ssl; /* 0 for a function that has none */
};

/* Hooks, defined by the object: a call that counts has begun, its arguments in their registers; has ended. */
static __always_inline void on_call_begin(const struct pt_regs *ctx, const struct ssll_start_key *key);
static __always_inline int on_call_end(const struct ended_call *call);

static __always_inline int on_entry(const struct pt_regs *ctx, __u64 cookie, __u64 stack)
{
	struct ssll_start_key key = call_key(cookie, stack);

	if (is_shut(cookie) || !is_traced_in(key.tgid, field(cookie, SSLL_COOKIE_LIBRARY, 8)) ||
	        is_size_query(ctx, field(cookie, SSLL_COOKIE_SKIP_NULL, 3)))
		return 0;
	on_call_begin(ctx, &key);
	store_start(&key, field(cookie, SSLL_COOKIE_SSL, 1) ? argument(ctx, 0) : 0, may_cross_again(cookie));
	return 0;
}

/* A call's end has no beginning. While probes are attached one after the other that is no loss: the trace begins with the last.
 */
static __always_inline void count_unmatched_exit(__u64 cookie)
{
	__u32 index = field(cookie, SSLL_COOKIE_LIBRARY, 8);
	struct ssll_library *library = bpf_map_lookup_elem(&libraries, &index);

	if (!field(cookie, SSLL_COOKIE_SHARED, 1) && !is_shut(cookie) && library && *(volatile __s32 *)&library->attached)
		count(&counters.unmatched_exits);
}

static __always_inline int on_exit(const struct pt_regs *ctx, __u64 cookie, __u64 stack)
{
	__u32 index = field(cookie, SSLL_COOKIE_LIBRARY, 8);
	struct ended_call call = {
	        .key = call_key(cookie, stack),
	        .verdict = success(),
	        .ended_ns = bpf_ktime_get_ns(),
	        .convention = field(cookie, SSLL_COOKIE_CONVENTION, 4),
	};
	bool read_again = call.convention == SSLL_SSL_HANDSHAKE;
	struct ssll_library *library;
	struct ssll_start start;

	if (!leaves_call(ctx, cookie, &call.returned) || !is_traced_in(call.key.tgid, index))
		return 0;
	if (!take_start(&call.key, &start)) {
		count_unmatched_exit(cookie);
		return 0;
	}
	library = bpf_map_lookup_elem(&libraries, &index);
	if (!library)
		return 0;
	if (field(cookie, SSLL_COOKIE_SSL, 1) && !is_on_wanted_side(start.ssl, call.key.tgid, read_again, library))
		return 0;
	call.verdict = returned(call.convention);
	if (!succeeded(cookie, call.returned)) {
		call.verdict = failure(SSLL_END_ERROR, SSLL_REASON_NONE);
		if (field(cookie, SSLL_COOKIE_SSL, 1))
			call.verdict = judge_call(start.ssl, (__s32)call.returned, call.convention, library);
		if (call.verdict.end == SSLL_END_TRANSPORT && has_raised(start.began_ns))
			call.verdict = judge_raised();
	}
	call.duration_ns = call.ended_ns - start.began_ns;
	call.library = index;
	call.ssl = start.ssl;
	return on_call_end(&call);
}

static __always_inline int on_free(__u64 ssl)
{
	forget_side(ssl, this_process());
	return 0;
}

#endif
