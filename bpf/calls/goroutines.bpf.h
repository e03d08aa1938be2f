/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The calls of Go functions that run, paired by goroutine and by how far a frame is from the top of its stack.
 *
 * The runtime grows a stack by copying it elsewhere; a frame keeps its distance from the top. No return probe is ever set,
 * which would end the program: the runtime knows no such return address. Calls that a panic leaves never reach an exit. They
 * are seen to be gone once the goroutine, or a later one with the same g, makes a call no deeper than they were.
 */
#ifndef CALLS_GOROUTINES_BPF_H
#define CALLS_GOROUTINES_BPF_H

#include "common/hits.bpf.h"
#include "common/maps.bpf.h"
#include "common/registers.bpf.h"
#include "common/tiers.bpf.h"
#include "stacks/go.bpf.h"

struct {
	SSLL_MAP(goroutines);
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SSLL_GOROUTINES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct ssll_goroutine_key);
	__type(value, struct ssll_goroutine);
} goroutines SEC(".maps");

/* How many goroutines of the processes of a slot are in the table, or were until user space took them out: so that one that
 * fills it leaves room for others. */
struct {
	SSLL_MAP(goroutine_shares);
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SSLL_PROCESS_SLOTS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} goroutine_shares SEC(".maps");

/* Those of them that user space has taken out, which alone writes here: what programs count it could only count down in two
 * steps, between which they count on. */
struct {
	SSLL_MAP(goroutines_taken);
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SSLL_PROCESS_SLOTS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} goroutines_taken SEC(".maps");

enum {
	GO_STACK_TOP = 8, /* in g: stack.hi */
};

static __always_inline struct ssll_goroutine_key goroutine_of(const struct pt_regs *ctx)
{
	struct ssll_goroutine_key key = {.goroutine = REGISTER(ctx, GOROUTINE), .tgid = this_process()};

	return key;
}

/* How far the stack pointer is from the top of the goroutine's stack; 0 where that can't be read, or isn't one. */
static __always_inline __u32 stack_depth(const struct pt_regs *ctx, const struct ssll_goroutine_key *key)
{
	__u64 top = 0;

	if (bpf_probe_read_user(&top, sizeof(top), (void *)(key->goroutine + GO_STACK_TOP)))
		return 0;
	top -= REGISTER(ctx, STACK_POINTER);
	return top >> 32 ? 0 : top;
}

static __always_inline __u64 *goroutine_share(__u32 tgid)
{
	__u32 number = process_slot(tgid);

	return bpf_map_lookup_elem(&goroutine_shares, &number);
}

/* How many of the slot's that were counted so are in the table now. */
static __always_inline __s64 goroutines_left(__u32 tgid, __u64 counted)
{
	__u32 number = process_slot(tgid);
	const __u64 *taken = bpf_map_lookup_elem(&goroutines_taken, &number);

	return taken ? counted - *(volatile __u64 *)taken : 0;
}

/* Not on the stack, half of which it would take. */
static const struct ssll_goroutine blank_goroutine = {};

/* The goroutine's record, made where it has none; NULL where there is no room for it. */
static __always_inline struct ssll_goroutine *add_goroutine(const struct ssll_goroutine_key *key)
{
	struct ssll_goroutine *goroutine = bpf_map_lookup_elem(&goroutines, key);
	__u64 *share;

	if (goroutine)
		return goroutine;
	share = goroutine_share(key->tgid);
	if (!share)
		return NULL;
	/* Room is taken before it is looked whether there was any: two processors may ask for the last of it at once. */
	if (goroutines_left(key->tgid, __sync_fetch_and_add(share, 1)) >= SSLL_GOROUTINE_SHARE ||
	        bpf_map_update_elem(&goroutines, key, &blank_goroutine, BPF_NOEXIST)) {
		__sync_fetch_and_add(share, -1);
		return NULL;
	}
	return bpf_map_lookup_elem(&goroutines, key);
}

static __always_inline void remove_goroutine(const struct ssll_goroutine_key *key)
{
	__u64 *share = goroutine_share(key->tgid);

	if (!bpf_map_delete_elem(&goroutines, key) && share)
		__sync_fetch_and_add(share, -1);
}

/* The compiler must not know the number's bounds: it would leave out the mask, by which Linux 6.1's verifier knows them. */
static __always_inline struct ssll_frame *frame_at(struct ssll_goroutine *goroutine, __u64 number)
{
	asm volatile("" : "+r"(number));
	return &goroutine->frames[number & (SSLL_FRAMES - 1)];
}

/* Whether user space has stopped to count such a call since it began. */
static __always_inline bool is_dropped(const struct ssll_frame *frame)
{
	return frame->tier < 3 && frame->began_ns < *(volatile __u64 *)&counters.dropped_ns[frame->tier];
}

/* A hook, defined by the object: the frame of a call is gone that hasn't come back. */
static __always_inline void on_frame_gone(const struct ssll_frame *frame);

/* Counts a call whose frame is gone. */
static __always_inline void count_gone(const struct ssll_goroutine *goroutine, const struct ssll_frame *frame)
{
	on_frame_gone(frame);
	if (is_dropped(frame))
		return;
	count(goroutine->left_ns >= frame->began_ns ? &counters.left : &counters.unmatched_entries);
}

/* Takes out the calls whose frames are gone: those of at least this depth. */
static __always_inline void take_gone(struct ssll_goroutine *goroutine, __u64 depth)
{
	for (__u32 i = 0; i < SSLL_FRAMES && goroutine->count; i++) {
		struct ssll_frame *top = frame_at(goroutine, goroutine->count - 1);

		if (top->depth < depth)
			return;
		count_gone(goroutine, top);
		goroutine->count--;
	}
}

/* Whether a call begins at an entry site, rather than that its stack grows first. */
static __always_inline bool begins_go_call(const struct pt_regs *ctx, __u64 cookie)
{
	__u64 unused;

	return leaves_call(ctx, cookie, &unused);
}

/* Whether a call ends at an exit site, rather than that the stack of a function that it defers grows first. */
static __always_inline bool leaves_go_call(const struct pt_regs *ctx, __u64 cookie)
{
	__u64 unused;

	return !is_deferred(cookie) || leaves_call(ctx, cookie, &unused);
}

/* How far from the top of its stack the call began that ends at an exit site; 0 where that can't be read. */
static __always_inline __u32 depth_at_entry(const struct pt_regs *ctx, __u64 cookie, const struct ssll_goroutine_key *key)
{
	__u32 depth = stack_depth(ctx, key), frame = field(cookie, SSLL_COOKIE_STACK, 16);

	return depth > frame ? depth - frame : 0;
}

/* Keeps the call that begins at this depth; NULL where it can't be kept. `call` gets the depth. */
static __always_inline struct ssll_frame *push_frame(
        const struct pt_regs *ctx, __u64 cookie, const struct ssll_goroutine_key *key, struct ssll_start_key *call)
{
	struct ssll_goroutine *goroutine;
	struct ssll_frame *frame;

	call->stack = stack_depth(ctx, key);
	if (!call->stack)
		return NULL;
	goroutine = add_goroutine(key);
	if (goroutine)
		take_gone(goroutine, call->stack);
	if (!goroutine || goroutine->count >= SSLL_FRAMES) {
		count(&counters.map_full);
		return NULL;
	}
	frame = frame_at(goroutine, goroutine->count);
	frame->connection = REGISTER(ctx, GO_FIRST_ARGUMENT);
	frame->depth = call->stack;
	frame->operation = call->operation;
	frame->tier = tier_of(cookie);
	frame->began_ns = bpf_ktime_get_ns();
	goroutine->count++;
	return frame;
}

/* Takes the call out that ends at this depth; false where none is known to have begun. */
static __always_inline bool take_frame(
        const struct ssll_goroutine_key *key, const struct ssll_start_key *call, struct ssll_frame *ended)
{
	struct ssll_goroutine *goroutine = bpf_map_lookup_elem(&goroutines, key);
	struct ssll_frame *top;
	bool known;

	if (!goroutine || !call->stack)
		return false;
	take_gone(goroutine, call->stack + 1);
	if (!goroutine->count) {
		remove_goroutine(key);
		return false;
	}
	top = frame_at(goroutine, goroutine->count - 1);
	if (top->depth != call->stack || top->operation != call->operation)
		return false;
	*ended = *top;
	known = !is_dropped(top);
	if (!--goroutine->count)
		remove_goroutine(key);
	return known;
}

static __always_inline bool is_go_on_wanted_side(__u64 connection, const struct ssll_library *library)
{
	bool server = false;

	return config.role == SSLL_ANY || !read_go_server(connection, library, &server) || is_wanted_side(server);
}

/* A panic, or runtime.Goexit, begins to leave the frames of its goroutine, unless it is recovered. */
static __always_inline int on_go_leaving(const struct pt_regs *ctx)
{
	struct ssll_goroutine_key key = goroutine_of(ctx);
	struct ssll_goroutine *goroutine = bpf_map_lookup_elem(&goroutines, &key);

	if (goroutine)
		goroutine->left_ns = bpf_ktime_get_ns();
	return 0;
}

#endif
