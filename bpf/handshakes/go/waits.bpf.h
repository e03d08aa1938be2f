/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * When a goroutine in a handshake waits for its socket.
 *
 * Since Linux 6.3 the kernel tells what each receive and send returns: a wait begins where it says that it would have to wait,
 * and ends with the next one that this goroutine makes, or as soon as it is seen at work. Reads of data cost no breakpoint
 * then. Before, the sites are those of the call in which the runtime parks a goroutine until its socket is ready, which
 * reads of data cross as well.
 */
#ifndef HANDSHAKES_GO_WAITS_BPF_H
#define HANDSHAKES_GO_WAITS_BPF_H

#include "handshakes/ending.bpf.h"
#include "handshakes/go/callbacks.bpf.h"

/* The record of the handshake that a frame is the call of: another may have its connection's address by now. */
static __always_inline struct ssll_handshake *handshake_of(const struct ssll_frame *frame)
{
	struct ssll_handshake *handshake = find_handshake(frame->connection, this_process());

	return handshake && handshake->began_ns == frame->began_ns ? handshake : NULL;
}

/* That of the innermost call of a goroutine; NULL where none of its calls runs. */
static __always_inline struct ssll_handshake *handshake_in(const struct ssll_goroutine_key *key, __u64 *connection)
{
	struct ssll_goroutine *goroutine = bpf_map_lookup_elem(&goroutines, key);
	struct ssll_frame *frame;

	if (!goroutine || !goroutine->count)
		return NULL;
	frame = frame_at(goroutine, goroutine->count - 1);
	*connection = frame->connection;
	return handshake_of(frame);
}

/* The same of the goroutine that runs. */
static __always_inline struct ssll_handshake *goroutines_handshake(const struct pt_regs *ctx, __u64 *connection)
{
	struct ssll_goroutine_key key = goroutine_of(ctx);

	return handshake_in(&key, connection);
}

/* The goroutine begins to wait, or the call is over. */
static __always_inline void end_in_call(
        __u64 goroutine, const struct ssll_library *library, struct ssll_handshake *handshake, __u64 now)
{
	if (!sees_phases(handshake))
		handshake->flags |= SSLL_FLAG_UNPHASED;
	end_go_away(goroutine, library, handshake, now);
	handshake->phase = 0;
	handshake->outer_stack = 0;
	handshake->assist_since_ns = 0; /* it would be one whose end went unseen */
	judge_split(handshake);
	handshake->parts[SSLL_PART_CALLS] += now - handshake->since_ns;
	handshake->since_ns = now;
}

/* Whether the goroutine itself was seen to wait for a socket. */
static __always_inline bool has_waited(const struct ssll_handshake *handshake)
{
	return handshake->parts[SSLL_PART_WAIT_PEER] || handshake->parts[SSLL_PART_QUEUE_SERVER] ||
	       handshake->parts[SSLL_PART_WAIT_PEER_OR_SERVER] || handshake->parts[SSLL_PART_WAIT_WINDOW] ||
	       handshake->parts[SSLL_PART_WAIT_UNKNOWN];
}

/* No thread in particular is expected to come for what arrives. */
static __always_inline void await_go_arrival(struct ssll_handshake *handshake, __u64 connection, __u64 now)
{
	struct ssll_arrival *arrival;

	find_socket_again(handshake, connection);
	await_arrival(handshake, connection, now);
	arrival = arrival_of(handshake);
	if (!arrival)
		return;
	arrival->task = arrival->tid = 0;
	arrival->clocks.tid = 0;
}

/* From `now` on the goroutine waits. */
static __always_inline void begin_wait(
        struct ssll_handshake *handshake, const struct ssll_library *library, __u64 connection, __u64 goroutine, __u8 part)
{
	__u64 now = bpf_ktime_get_ns();

	end_in_call(goroutine, library, handshake, now);
	handshake->waiting = part;
	if (part == SSLL_PART_WAIT_PEER)
		await_go_arrival(handshake, connection, now);
}

/* The thread that runs is one that handshakes come to at a server's port. A client's port is of one connection. */
__noinline int keep_go_worker(struct ssll_handshake *handshake, __u64 connection, __u64 now)
{
	struct ssll_library *library = handshake ? library_of(handshake->library) : NULL;
	bool server = false;

	if (!handshake || !library || !handshake->socket)
		return 0;
	if (read_go_server(connection, library, &server) && server)
		keep_worker(port_of((struct sock *)handshake->socket), now);
	return 0;
}

/* It runs again. */
__noinline int end_go_wait(struct ssll_handshake *handshake, __u64 connection, __u64 goroutine, __u64 now)
{
	struct ssll_library *library = handshake ? library_of(handshake->library) : NULL;

	if (!handshake || !library)
		return 0;
	begin_go_away(goroutine, library, lookup_or_init_thread(), now);
	compare_own_clocks(now);
	end_wait(handshake, connection, now);
	keep_go_worker(handshake, connection, now);
	handshake->since_ns = now;
	handshake->watch = watch_below();
	return 0;
}

/* Whether what is waited for in a phase is that phase's: it is something else than the connection, as a signer's device. */
static __always_inline bool is_in_phase(struct ssll_handshake *handshake)
{
	drop_unseen_phase(handshake);
	return handshake->phase;
}

enum {
	GO_WAIT_TO_READ = 'r', /* the mode of a wait for a socket */
};

/*
 * The part that a wait of the goroutine counts in: none where it waits for something else than the connection's socket. Where
 * the socket is within something else, that may as well wait for another one of its own.
 */
static __always_inline __u8 part_of_park(const struct pt_regs *ctx, __u64 connection, const struct ssll_library *library)
{
	__u64 polled = 0, socket = go_socket_of(connection, library);

	if (!socket || !read_place(socket, library, SSLL_PLACE_OF_POLLED, &polled))
		return SSLL_PART_WAIT_UNKNOWN;
	if (polled != REGISTER(ctx, GO_FIRST_ARGUMENT))
		return holds_go_socket(connection, library) ? 0 : SSLL_PART_WAIT_UNKNOWN;
	return (__u8)go_result(ctx, 1) == GO_WAIT_TO_READ ? SSLL_PART_WAIT_PEER : SSLL_PART_WAIT_WINDOW;
}

/* The goroutine parks until its socket is ready. */
static __always_inline int begin_park(const struct pt_regs *ctx)
{
	__u64 connection = 0;
	struct ssll_handshake *handshake = goroutines_handshake(ctx, &connection);
	struct ssll_library *library = handshake ? library_of(handshake->library) : NULL;
	__u8 part;

	if (!handshake || !library || is_in_phase(handshake))
		return 0;
	part = part_of_park(ctx, connection, library);
	if (part)
		begin_wait(handshake, library, connection, REGISTER(ctx, GOROUTINE), part);
	return 0;
}

static __always_inline int end_park(const struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns(), connection = 0;
	struct ssll_handshake *handshake = goroutines_handshake(ctx, &connection);

	return handshake && handshake->waiting ? end_go_wait(handshake, connection, REGISTER(ctx, GOROUTINE), now) : 0;
}

enum {
	WOULD_WAIT = -11, /* -EAGAIN */
	LOOKS_ONLY = 2,   /* MSG_PEEK */
};

/* As part_of_park(), of a receive or a send that would have had to wait. */
static __always_inline __u8 part_of_refusal(__u64 refused, __u8 part, __u64 connection, const struct ssll_library *library)
{
	__u32 descriptor;

	if (!read_descriptor(connection, library, &descriptor))
		return SSLL_PART_WAIT_UNKNOWN;
	if ((__u64)find_socket(descriptor) != refused)
		return holds_go_socket(connection, library) ? 0 : SSLL_PART_WAIT_UNKNOWN;
	return part;
}

/* A goroutine in a handshake has found that it would have to wait at this socket. It may have looked again in vain. */
__noinline int refuse_transfer(
        struct ssll_handshake *handshake, __u64 connection, __u64 goroutine, __u64 socket, __u32 transfer)
{
	struct ssll_library *library = handshake ? library_of(handshake->library) : NULL;
	__u8 part;

	if (!handshake || !library || is_in_phase(handshake))
		return 0;
	part = part_of_refusal(socket, transfer, connection, library);
	if (handshake->waiting == part)
		return 0;
	if (handshake->waiting)
		end_go_wait(handshake, connection, goroutine, bpf_ktime_get_ns());
	if (part)
		begin_wait(handshake, library, connection, goroutine, part);
	return 0;
}

/* Bytes were received that nobody has seen to arrive: whose wait for them it was isn't known. */
static __always_inline void disown_unseen(struct ssll_handshake *handshake)
{
	struct ssll_arrival *arrival = arrival_of(handshake);

	if (arrival && !arrival->arrived_ns)
		arrival->ssl = NOBODY_WAITS;
}

/* A register of the process in this thread, which has entered the kernel. */
static __always_inline __u64 own_goroutine(void)
{
	__u64 goroutine = 0, registers = bpf_task_pt_regs(bpf_get_current_task_btf());

	bpf_probe_read_kernel(
	        &goroutine, sizeof(goroutine), (void *)(registers + offsetof(struct machine_registers, GOROUTINE)));
	return goroutine;
}

/* A receive or a send (`part`: that of a wait for it) at a socket of whatever process has come back with so many bytes, or an
 * error. In Go code a register has the goroutine, also while that is in the kernel. */
static __always_inline int note_transfer(__u64 socket, __s32 result, __u32 flags, __u8 part)
{
	struct ssll_goroutine_key key = {.tgid = this_process()};
	const __u64 *share = goroutine_share(key.tgid);
	struct ssll_handshake *handshake;
	__u64 connection = 0;

	if (!share || !goroutines_left(key.tgid, *(volatile __u64 *)share))
		return 0;
	if (!*(volatile __u64 *)&handshake_counters.watches_transfers)
		return 0;
	key.goroutine = own_goroutine();
	handshake = handshake_in(&key, &connection);
	if (!handshake)
		return 0;
	if (flags & LOOKS_ONLY) /* whether its peer is still there, say: it goes on with other work */
		return 0;
	if (result == WOULD_WAIT)
		return refuse_transfer(handshake, connection, key.goroutine, socket, part);
	if (!handshake->waiting)
		return 0;
	if (result > 0 && part == SSLL_PART_WAIT_PEER)
		disown_unseen(handshake);
	return end_go_wait(handshake, connection, key.goroutine, bpf_ktime_get_ns());
}

#endif
