/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The handshakes that run, one record for each SSL; their calls that run, by their place on the stack; and which handshake a
 * thread works for. There are as many such calls as threads inside one; what never ends is pushed out.
 */
#ifndef RUNNING_BPF_H
#define RUNNING_BPF_H

#include "handshake.h"
#include "common/registers.bpf.h"
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

static __always_inline struct ssll_open_call *find_open_call(const struct ssll_start_key *key)
{
	struct ssll_open_call *call = bpf_map_lookup_elem(&open_calls, key);

	return call || !is_excess_used() ? call : bpf_map_lookup_elem(&excess_calls, key);
}

/* In place of what was left there by a call that never ended. */
static __always_inline void keep_open_call(const struct ssll_start_key *key, const struct ssll_open_call *call)
{
	__u64 *entries = entries_of(key->tgid, SSLL_SHARED_CALLS);

	if (!entries)
		return;
	if ((__s64)*entries < MOST_OF(SSLL_OPEN_CALLS) && !bpf_map_update_elem(&open_calls, key, call, BPF_NOEXIST))
		count(entries);
	else if (bpf_map_update_elem(&open_calls, key, call, BPF_EXIST))
		bpf_map_update_elem(use_excess(&excess_calls), key, call, BPF_ANY);
}

static __always_inline void forget_open_call(const struct ssll_start_key *key)
{
	if (!bpf_map_delete_elem(&open_calls, key))
		release_entry(key->tgid, SSLL_SHARED_CALLS);
	if (is_excess_used())
		bpf_map_delete_elem(&excess_calls, key);
}

#endif
