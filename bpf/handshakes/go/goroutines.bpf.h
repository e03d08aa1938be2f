/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Handshakes of Go's crypto/tls: from the call that makes one to its return, with the waits and phases of the goroutine that
 * runs it. A goroutine goes from thread to thread, so time on and off processors is only known where it kept its thread in all
 * that lies between the waits. What is known of a queue is what the thread did that has come for the goroutine in the end, by
 * clocks of the threads that run handshakes of a port.
 */
#ifndef HANDSHAKES_GOROUTINES_BPF_H
#define HANDSHAKES_GOROUTINES_BPF_H

#include "calls/go_programs.bpf.h"
#include "handshakes/go/collections.bpf.h"
#include "handshakes/go/errors.bpf.h"
#include "handshakes/go/keys.bpf.h"
#include "handshakes/go/waits.bpf.h"

/* Its handshake is forgotten. */
static __always_inline void on_frame_gone(const struct ssll_frame *frame)
{
	if (handshake_of(frame))
		close_handshake(frame->connection, this_process());
}

/* What passed before the call, of a connection whose first bytes were the ClientHello. */
__noinline int begin_with_go_hello(struct ssll_handshake *handshake, __u64 connection)
{
	struct ssll_arrival *arrival;

	if (!handshake)
		return 0;
	find_socket_again(handshake, connection);
	arrival = arrival_of(handshake);
	if (!arrival)
		return 0;
	if (!arrival->ssl && !is_read_from((struct sock *)handshake->socket))
		add_hello(handshake, arrival);
	arrival->ssl = NOBODY_WAITS;
	return 0;
}

static __always_inline int on_go_entry(const struct pt_regs *ctx, __u64 cookie)
{
	__u32 index = field(cookie, SSLL_COOKIE_LIBRARY, 8);
	__u64 connection = REGISTER(ctx, GO_FIRST_ARGUMENT);
	struct ssll_goroutine_key key = goroutine_of(ctx);
	struct ssll_start_key call = call_key(cookie, 0);
	struct ssll_library *library;
	struct ssll_handshake *handshake;
	struct ssll_frame *frame;

	if (is_shut(cookie) || !begins_go_call(ctx, cookie) || !is_traced(key.tgid))
		return 0;
	library = library_of(index);
	if (!library || !is_go_on_wanted_side(connection, library))
		return 0;
	frame = push_frame(ctx, cookie, &key, &call);
	if (!frame)
		return 0;
	if (find_handshake(connection, key.tgid)) /* its call was left, or it is another connection's that lay there */
		close_handshake(connection, key.tgid);
	forget_endpoint(connection);
	handshake = open_handshake(connection, key.tgid, index, frame->began_ns);
	if (!handshake)
		return 0;
	handshake->flags |= SSLL_FLAG_GOROUTINE;
	handshake->calls = handshake->depth = 1;
	handshake->watch = watch_below();
	begin_go_away(key.goroutine, library, lookup_or_init_thread(), frame->began_ns); /* whose clocks are kept from now on */
	compare_own_clocks(frame->began_ns);
	return begin_with_go_hello(handshake, connection);
}

/* Whether receives and sends weren't watched at some time since then, though only they tell when goroutines wait. */
static __always_inline bool misses_transfers_since(__u64 ns)
{
	return ns < *(volatile __u64 *)&handshake_counters.transfers_since_ns;
}

/* The call that makes a handshake has returned an error, or none. Returns how the handshake has ended, as handshake_end's word.
 */
__noinline __u32 end_go_handshake(struct ssll_handshake *handshake, __u64 connection, __u64 itab, __u64 error)
{
	struct ssll_library *library = handshake ? library_of(handshake->library) : NULL;
	union handshake_end how = {.ending = SSLL_ENDING_SUCCESS, .end = SSLL_END_NONE, .server = true, .in_call = true};

	if (!handshake || !library)
		return 0;
	/* Of QUIC, or of a transport of the program's own, goroutines wait elsewhere, as for a channel. */
	if (misses_transfers_since(handshake->began_ns) || (!holds_go_socket(connection, library) && !has_waited(handshake)))
		handshake->flags |= SSLL_FLAG_SLEPT;
	read_go_server(connection, library, &how.server);
	if (itab) {
		how.end = judge_go_handshake(handshake, itab, error, library).end;
		note_sent_alert(handshake, connection, library);
		how.ending = how.end == SSLL_END_ERROR ? SSLL_ENDING_FAILURE : SSLL_ENDING_ABANDONED;
	}
	return how.word;
}

static __always_inline int on_go_exit(const struct pt_regs *ctx, __u64 cookie)
{
	struct ssll_goroutine_key key = goroutine_of(ctx);
	struct ssll_start_key call = call_key(cookie, 0);
	struct ssll_handshake *handshake;
	struct ssll_library *library;
	struct ssll_frame frame;
	__u64 now = bpf_ktime_get_ns();
	__u32 end;

	if (!is_traced(key.tgid))
		return 0;
	call.stack = stack_depth(ctx, &key);
	if (!take_frame(&key, &call, &frame))
		return 0;
	handshake = handshake_of(&frame);
	library = handshake ? library_of(handshake->library) : NULL;
	if (!handshake || !library)
		return 0;
	if (handshake->waiting) /* for what never came, as its deadline has passed */
		end_go_wait(handshake, frame.connection, key.goroutine, now);
	end_in_call(key.goroutine, library, handshake, now);
	end = end_go_handshake(handshake, frame.connection, go_result(ctx, 0), go_result(ctx, 1));
	return end ? finish_handshake(handshake, frame.connection, end, now) : 0;
}

/* Whether the function that opens tickets is called without one: it's called in any handshake before TLS 1.3. */
static __always_inline bool opens_nothing(const struct pt_regs *ctx, __u8 part)
{
	return part == SSLL_PART_SESSION_LOOKUP &&
	       !go_result(ctx, 2); /* the slice's length, behind the receiver and its address */
}

/* The time since the open phase began, and how long its thread was off the processor in that: it matters only where the
 * goroutine has kept that thread. */
static __always_inline void add_go_phase(struct ssll_handshake *handshake, __u8 part, __u64 now)
{
	add_part(handshake, part, now - handshake->phase_since_ns);
	end_go_phase_away(now);
}

/* Functions of the key exchange before TLS 1.3 sign as well, and check signatures; those that check certificates ask the
 * application. */
static __always_inline bool interrupts_go(const struct ssll_handshake *handshake, __u8 part)
{
	if (handshake->phase == SSLL_PART_KEY_EXCHANGE)
		return part != SSLL_PART_KEY_EXCHANGE;
	return handshake->phase == SSLL_PART_PEER_VERIFICATION && part == SSLL_PART_CALLBACKS && !handshake->outer_stack;
}

/* Opens a phase that begins at this depth, if it isn't part of another that it doesn't interrupt. Those that lie deeper, or as
 * deep, were left by a panic. */
static __always_inline void open_go_phase(struct ssll_handshake *handshake, __u8 part, __u64 depth, __u64 now)
{
	if (handshake->phase && handshake->phase_stack < depth) {
		if (!interrupts_go(handshake, part))
			return;
		add_go_phase(handshake, handshake->phase, now);
		handshake->outer_stack = handshake->phase_stack;
		handshake->outer_phase = handshake->phase;
	} else if (handshake->outer_stack >= depth || !handshake->phase) {
		handshake->outer_stack = 0;
	}
	handshake->phase = part;
	handshake->phase_stack = depth;
	handshake->phase_since_ns = now;
	begin_go_phase_away(now);
}

/* A phase's function is called, or the goroutine begins to wait. The outermost phase counts. */
static __always_inline int begin_go_phase(const struct pt_regs *ctx, __u64 cookie)
{
	__u8 part = field(cookie, SSLL_PHASE_COOKIE_PART, 4);
	struct ssll_goroutine_key key = goroutine_of(ctx);
	struct ssll_handshake *handshake;
	__u64 connection = 0, depth;

	if (is_transport(part))
		return begin_park(ctx);
	handshake = goroutines_handshake(ctx, &connection);
	if (!handshake || branches_away(ctx, cookie) || opens_nothing(ctx, part))
		return 0;
	drop_unseen_phase(handshake);
	if (part == SSLL_PART_CALLBACKS && !calls_application(ctx, handshake, connection))
		return 0;
	if (handshake->phase != SSLL_PART_CALLBACKS) /* which may sign something else, as a certificate */
		note_go_key(ctx, handshake, cookie);
	if (handshake->waiting)
		end_go_wait(handshake, connection, key.goroutine, bpf_ktime_get_ns());
	depth = field(cookie, SSLL_PHASE_COOKIE_INNER, 1) ? 0 : stack_depth(ctx, &key);
	if (depth && (!is_windowed(part) || sees_phases(handshake)))
		open_go_phase(handshake, part, depth, bpf_ktime_get_ns());
	return 0;
}

static __always_inline int end_go_phase(const struct pt_regs *ctx, __u64 cookie)
{
	__u8 part = field(cookie, SSLL_PHASE_COOKIE_PART, 4);
	struct ssll_goroutine_key key = goroutine_of(ctx);
	struct ssll_handshake *handshake;
	__u64 now = bpf_ktime_get_ns(), connection = 0;

	if (is_transport(part))
		return end_park(ctx);
	handshake = goroutines_handshake(ctx, &connection);
	if (!handshake || handshake->phase != part || handshake->phase_stack != stack_depth(ctx, &key))
		return 0;
	add_go_phase(handshake, part, now);
	handshake->phase = 0;
	if (!handshake->outer_stack)
		return 0;
	handshake->phase = handshake->outer_phase;
	handshake->phase_stack = handshake->outer_stack;
	handshake->phase_since_ns = now;
	handshake->outer_stack = 0;
	begin_go_phase_away(now);
	return 0;
}

/* The function that chooses a server's certificate returns it, or NULL with an error. */
static __always_inline int note_go_certificate(const struct pt_regs *ctx)
{
	struct ssll_handshake *handshake;
	__u64 connection = 0;

	if (!handshake_config.certificates)
		return 0;
	handshake = goroutines_handshake(ctx, &connection);
	if (!handshake)
		return 0;
	handshake->chosen = choose_go_certificate(go_result(ctx, 0));
	handshake->flags |= SSLL_FLAG_CHOSEN;
	return 0;
}

/* A connection over QUIC has got its parameters, a slice of bytes, from its application. */
static __always_inline int note_go_parameters(const struct pt_regs *ctx)
{
	__u64 connection = 0, at = go_result(ctx, 0), length = go_result(ctx, 1);
	struct ssll_handshake *handshake;
	struct ssll_library *library;
	bool server = false;

	if (!watches_packets() || length > MOST_MESSAGE_BYTES || at >> 48)
		return 0;
	handshake = goroutines_handshake(ctx, &connection);
	library = handshake ? library_of(handshake->library) : NULL;
	if (!library || !read_side(connection, library, &server) || !server)
		return 0;
	return take_quic_parameters(connection, handshake, at << 16 | length);
}

#endif
