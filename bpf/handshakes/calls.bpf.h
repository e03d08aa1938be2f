/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The calls of a handshake: when one begins and ends, and when its SSL is freed. */
#ifndef HANDSHAKES_CALLS_BPF_H
#define HANDSHAKES_CALLS_BPF_H

#include "common/tiers.bpf.h"
#include "handshakes/ending.bpf.h"
#include "handshakes/parts.bpf.h"
#include "running/reads.bpf.h"
#include "running/running.bpf.h"

/* A call on an SSL that has no handshake begins one only where the SSL says that one is to be done. */
static __always_inline bool begins_handshake(__u64 ssl, __u32 convention, const struct ssll_library *library)
{
	__u64 in_init = 0, reached = 0;
	__u32 state = 0;

	if (counts_states(library))
		return convention == SSLL_SSL_HANDSHAKE && begins_mbedtls(ssl, library);
	if (!library->paths[SSLL_PLACE_OF_IN_INIT].length || begins_within_call(library))
		return convention == SSLL_SSL_HANDSHAKE && !has_shaken_hands(ssl, library);
	if (!read_place(ssl, library, SSLL_PLACE_OF_IN_INIT, &in_init) || !in_init)
		return false;
	if (read_place(ssl, library, SSLL_PLACE_OF_HAND_STATE, &reached) && reached == OPENSSL_STATE_OK)
		return false; /* it only renews its keys */
	return !read_int(ssl, library->state, &state) || state != OPENSSL_FLOW_ERROR;
}

/* What an SSL waits for is set by its first call: whoever has waited before was under way before it was looked at. */
static __always_inline bool is_under_way(__u64 ssl, const struct ssll_library *library)
{
	__u64 in_init = 0;
	__u32 rwstate = 0;

	if (counts_states(library))
		return is_mbedtls_under_way(ssl, library);
	if (begins_within_call(library))
		return read_place(ssl, library, SSLL_PLACE_OF_IN_INIT, &in_init) && in_init;
	if (library->stack == SSLL_STACK_WOLFSSL)
		return is_wolfssl_under_way(ssl, library);
	return read_rwstate(ssl, library, &rwstate) && rwstate > OPENSSL_NOTHING;
}

/* The handshake goes on in this thread, in a call that no other of its calls is around. */
static __always_inline void begin_call(struct ssll_handshake *handshake, struct ssll_thread *thread, __u64 ssl, __u64 now)
{
	end_wait(handshake, ssl, now);
	look_for_peer(handshake);
	begin_away(thread, now);
	has_slept(thread);
	handshake->calls++;
	handshake->error = 0;
	handshake->completed_ns = 0;
	handshake->watch = watch_below();
	handshake->since_ns = now;
	handshake->phase_since_ns = now; /* of a phase that was paused */
}

/* The thread works for this SSL from now on. */
static __always_inline void enter_ssl(struct ssll_thread *thread, __u64 ssl, __u64 now)
{
	if (!thread->ssl || !thread->busy_since_ns)
		begin_busy(thread, now);
	thread->ssl = ssl;
}

/* The thread works for the SSL around this one again, if any. */
static __always_inline void leave_ssl(struct ssll_thread *thread, __u64 outer, __u64 now)
{
	thread->ssl = outer;
	if (!outer)
		end_busy(thread, now);
}

/* The call of the state machine in which the handshake goes on; NULL where a call around it is watched. */
static __always_inline struct ssll_open_call *find_machine_call(const struct ssll_handshake *handshake)
{
	struct ssll_start_key key = call_key(SSLL_OPERATION_STATE_MACHINE, handshake->machine_stack);

	return handshake->machine_stack && !(handshake->flags & SSLL_FLAG_CHOSEN) ? find_open_call(&key) : NULL;
}

/*
 * A job pauses, or may. Where a handshake's call is around it that is seen to come back, that tells. Of a job that a read or a
 * write runs, only the state machine within it is watched, which doesn't come back now.
 */
__noinline int pause_job(__u64 stack)
{
	struct ssll_start_key key = call_key(SSLL_OPERATION_PAUSE, stack);
	struct ssll_handshake *handshake = current_handshake();
	struct ssll_open_call *call = handshake ? find_machine_call(handshake) : NULL;
	struct ssll_thread *thread = find_thread();
	__u64 now = bpf_ktime_get_ns();

	if (!call || !thread)
		return 0;
	keep_open_call(&key, thread->ssl, 0);
	leave_ssl(thread, call->outer, now);
	handshake->depth = 0;
	judge_split(handshake);
	close_call(handshake, thread, true, true, now);
	handshake->waiting = SSLL_PART_WAIT_OFFLOAD;
	begin_offload_wait(handshake);
	return 0;
}

/* A job goes on, maybe in another thread. */
__noinline int resume_job(__u64 stack)
{
	struct ssll_start_key key = call_key(SSLL_OPERATION_PAUSE, stack);
	struct ssll_thread *thread = lookup_or_init_thread();
	struct ssll_open_call paused, *call;
	struct ssll_handshake *handshake;
	__u64 now = bpf_ktime_get_ns();

	if (!thread || !take_open_call(&key, &paused))
		return 0;
	handshake = find_handshake(paused.ssl, this_process());
	call = handshake && !handshake->depth ? find_machine_call(handshake) : NULL;
	if (!call)
		return 0;
	call->outer = thread->ssl;
	enter_ssl(thread, paused.ssl, now);
	handshake->depth = 1;
	begin_call(handshake, thread, paused.ssl, now);
	return 0;
}

static __always_inline bool is_operation(__u64 cookie, enum ssll_operation operation)
{
	return field(cookie, SSLL_COOKIE_OPERATION, 8) == operation;
}

static __always_inline int on_entry(const struct pt_regs *ctx, __u64 cookie, __u64 stack)
{
	__u64 now = bpf_ktime_get_ns(), ssl = argument(ctx, 0);
	__u32 index = field(cookie, SSLL_COOKIE_LIBRARY, 8);
	struct ssll_start_key key = call_key(cookie, stack);
	struct ssll_handshake *handshake;
	struct ssll_library *library;
	struct ssll_thread *thread;

	if (is_shut(cookie) || !is_traced(key.tgid))
		return 0;
	if (is_operation(cookie, SSLL_OPERATION_PAUSE))
		return pause_job(stack);
	handshake = find_handshake(ssl, key.tgid);
	if (!handshake) {
		library = library_of(index);
		if (!library || !is_connection(ssl, library) ||
		        !begins_handshake(ssl, field(cookie, SSLL_COOKIE_CONVENTION, 4), library))
			return 0;
		handshake = open_handshake(ssl, key.tgid, index, now);
		forget_endpoint(ssl); /* of an SSL that lay there before */
		if (handshake && is_under_way(ssl, library))
			handshake->flags |= SSLL_FLAG_PARTIAL;
		begin_with_hello(handshake, ssl);
		begin_without_tcp(handshake, ssl);
	}
	thread = lookup_or_init_thread();
	if (!handshake || !thread || handshake->flags & SSLL_FLAG_ENDED)
		return 0;
	if (tier_of(cookie) == SSLL_TIER_DATA && !handshake->depth)
		count(&handshake_counters.within_data);
	if (handshake->depth && find_open_call(&key)) { /* none is made from the same place before it is back */
		if (may_cross_again(cookie))
			return 0; /* it is the same one */
		thread->busy_since_ns = 0;
		close_lost_call(handshake, now);
	}
	if (handshake->depth && is_operation(cookie, SSLL_OPERATION_STATE_MACHINE)) /* within a call that is seen itself */
		return 0;
	if (!thread->ssl) {
		own_fed(handshake, thread, ssl);
		sample_own(now);
	}
	keep_open_call(&key, ssl, thread->ssl);
	enter_ssl(thread, ssl, now);
	if (handshake->depth++)
		return 0;
	if (!(handshake->flags & SSLL_FLAG_CHOSEN))
		handshake->machine_stack = is_operation(cookie, SSLL_OPERATION_STATE_MACHINE) ? stack : 0;
	begin_call(handshake, thread, ssl, now);
	return 0;
}

/* SSL_free of an SSL whose handshake hasn't ended. Not inlined, as most SSLs are freed long after that. */
static __noinline int free_unended(struct ssll_handshake *handshake, __u64 ssl)
{
	__u64 now = bpf_ktime_get_ns();
	struct ssll_thread *thread = lookup_or_init_thread();
	union handshake_end how = {.ending = SSLL_ENDING_ABANDONED, .end = SSLL_END_NONE};
	struct ssll_library *library;
	bool own;

	if (handshake->flags & SSLL_FLAG_ENDED) {
		forget_handshake(ssl, this_process());
		return 0;
	}
	library = library_of(handshake->library);
	if (!library)
		return 0;
	own = thread && thread->ssl == ssl;                         /* no call frees its own SSL */
	if (handshake->depth && !own && counts_references(library)) /* in another thread, which keeps one */
		return 0;
	if (own) {
		thread->busy_since_ns = 0;
		thread->ssl = 0;
	} else if (handshake->depth) { /* what this thread does says nothing of the phase that is open in the other */
		handshake->flags |= SSLL_FLAG_UNATTRIBUTED;
		handshake->phase = 0;
	}
	if (handshake->depth)
		close_lost_call(handshake, now);
	look_who_left(handshake, ssl);
	end_wait(handshake, ssl, now);
	if (read_wanted_side(ssl, library, &how.server))
		return finish_handshake(handshake, ssl, how.word, now);
	close_handshake(ssl, this_process());
	return 0;
}

/* SSL_free: mostly of an SSL whose handshake has ended, of which nothing is kept. Its sites are of the program for exits, which
 * has most of what it takes: a program of its own would have it once more. */
static __always_inline int on_free(__u64 ssl)
{
	struct ssll_handshake *handshake = find_handshake(ssl, this_process());

	return handshake ? free_unended(handshake, ssl) : 0;
}

/*
 * The thread that runs is ended, within a call or not. Whoever frees the SSL of such a call finds then that it is in none.
 * Before Linux 6.16 the kernel says so only after it has woken who waits for the thread: by then another connection may lie at
 * the SSL, whose handshake has begun since the thread's call did.
 */
__noinline int lose_call_of_thread(void)
{
	struct ssll_thread *thread = find_thread();
	struct ssll_handshake *handshake = handshake_of_thread(thread);

	if (handshake && thread && handshake->began_ns <= thread->call.at_ns)
		close_lost_call(handshake, bpf_ktime_get_ns());
	return 0;
}

/* Whether the call has come back because its job pauses. The state machine doesn't come back then. */
static __always_inline bool is_paused(__u64 ssl, const struct ssll_handshake *handshake, __u64 cookie, __u64 value)
{
	struct ssll_library *library;

	if ((__s32)value >= 1 || is_operation(cookie, SSLL_OPERATION_STATE_MACHINE))
		return false;
	library = library_of(handshake->library);
	return library && is_job_paused(ssl, library);
}

static __always_inline int on_call_exit(const struct pt_regs *ctx, __u64 cookie, __u64 stack)
{
	__u64 now = bpf_ktime_get_ns(), value = 0;
	struct ssll_start_key key = call_key(cookie, stack);
	struct ssll_handshake *handshake;
	struct ssll_open_call call;
	struct ssll_thread *thread;
	bool same_thread;
	__u32 end;

	if (!leaves_call(ctx, cookie, &value))
		return 0;
	if (is_operation(cookie, SSLL_OPERATION_PAUSE))
		return resume_job(stack);
	if (!take_open_call(&key, &call))
		return 0;
	thread = lookup_or_init_thread();
	same_thread = thread && thread->ssl == call.ssl;
	if (thread)
		leave_ssl(thread, call.outer, now);
	handshake = find_handshake(call.ssl, key.tgid);
	if (!handshake || !handshake->depth || --handshake->depth)
		return 0;
	judge_split(handshake);
	close_call(handshake, thread, same_thread, is_paused(call.ssl, handshake, cookie, value), now);
	if (thread && thread->ssl)
		lose_away(thread);
	end = continue_or_end(handshake, call.ssl, cookie, value, now);
	return end ? finish_handshake(handshake, call.ssl, end, now) : 0;
}

static __always_inline int on_exit(const struct pt_regs *ctx, __u64 cookie, __u64 stack)
{
	return is_operation(cookie, SSLL_OPERATION_FREE) ? on_free(argument(ctx, 0)) : on_call_exit(ctx, cookie, stack);
}

#endif
