/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The socket of a handshake whose library reads none by itself: the application does, in a BIO of its own within the calls, or
 * before them, and hands the bytes over. The kernel tells of each read of a TCP socket, in the thread that reads.
 *
 * Only a connection that was asked for by its peer counts, and only one that no other handshake has. A read within a call tells
 * its socket, but for those in callbacks. Before a call, it is the socket that its thread has read since its last call, if that
 * was one alone; and a handshake whose calls follow reads of different sockets has none. Nor has one that isn't over TCP, where
 * that is known, or else in a thread that has made a handshake over QUIC.
 */
#ifndef READS_BPF_H
#define READS_BPF_H

#include "labels/quic.bpf.h"
#include "running/arrivals.bpf.h"
#include "running/blocking.bpf.h"

/* `read_socket` of a thread that has read from more than one. */
#define SEVERAL_SOCKETS (~0ULL)

/* What was told of it by its socket may be another handshake's. */
static __always_inline void disown(struct ssll_handshake *handshake)
{
	handshake->socket = 0;
	handshake->flags &= ~(SSLL_FLAG_FED | SSLL_FLAG_SEVERAL | SSLL_FLAG_BOUNDED | SSLL_FLAG_UNSENT | SSLL_FLAG_GONE |
	                      SSLL_FLAG_GONE_NOW | SSLL_FLAG_LOST);
	handshake->flags |= SSLL_FLAG_DISOWNED;
	handshake->flights = 0;
	handshake->flight_bytes = handshake->retransmissions = 0;
	handshake->parts[SSLL_PART_WAIT_PEER_OR_SERVER] += handshake->parts[SSLL_PART_WAIT_PEER];
	handshake->parts[SSLL_PART_WAIT_PEER_OR_SERVER] += handshake->parts[SSLL_PART_QUEUE_SERVER];
	handshake->parts[SSLL_PART_WAIT_PEER_OR_SERVER] += handshake->parts[SSLL_PART_WAIT_APPLICATION];
	handshake->parts[SSLL_PART_WAIT_PEER] = handshake->parts[SSLL_PART_QUEUE_SERVER] = 0;
	handshake->parts[SSLL_PART_WAIT_APPLICATION] = 0;
	for (__u32 part = SSLL_PART_QUEUE_HANDSHAKES; part <= SSLL_PART_ROUND_TRIPS; part++)
		handshake->parts[part] = 0;
	handshake->parts[SSLL_PART_WAIT_HELLO] = handshake->parts[SSLL_PART_QUEUE_START] = 0;
	handshake->parts[SSLL_PART_LOSSES] = handshake->parts[SSLL_PART_GONE] = 0;
}

/* Whether the handshake may have this socket, of which it isn't known whose it is. */
static __always_inline bool may_own(const struct ssll_handshake *handshake, __u64 ssl, const struct ssll_arrival *arrival)
{
	return !(handshake->flags & SSLL_FLAG_DISOWNED) && (!arrival->ssl || arrival->ssl == ssl);
}

/* Of a handshake that begins: one that shows no socket of TCP and can't be over it is never taken for one that is fed. */
__noinline int begin_without_tcp(struct ssll_handshake *handshake, __u64 ssl)
{
	if (handshake && !handshake->socket && is_without_tcp(ssl, library_of(handshake->library)))
		handshake->flags |= SSLL_FLAG_DISOWNED;
	return 0;
}

/* Whether the first bytes of its connection are those that were read last. */
static __always_inline bool reads_first_bytes(const struct ssll_arrival *arrival, __u64 watched_since)
{
	return arrival->established_ns > watched_since && !arrival->ssl && arrival->arrived_ns;
}

/* The wait before the call that began then was for the ClientHello, which the call has read. */
static __always_inline void split_wait(
        struct ssll_handshake *handshake, __u64 ssl, struct ssll_arrival *arrival, __u64 call_began)
{
	__u64 since = handshake->unsplit_since_ns;

	if (!call_began || !since)
		return;
	handshake->unsplit_since_ns = 0;
	handshake->parts[SSLL_PART_WAIT_PEER_OR_SERVER] -= call_began - since;
	adopt_arrival(arrival, ssl, since);
	end_peer_wait(handshake, ssl, since, call_began);
}

/* A call of the handshake reads another socket than the one that it is taken to have: unless the library shows that one, it
 * isn't known which is its own. A fiber of the same thread may have gone on in the middle of the call. */
static __always_inline void doubt_socket(struct ssll_handshake *handshake, __u64 ssl)
{
	if (handshake->flags & SSLL_FLAG_FED || !socket_of(ssl, library_of(handshake->library)))
		disown(handshake);
}

/* A call that reads the socket itself. */
__noinline int own_within(
        struct ssll_handshake *handshake, struct ssll_thread *thread, struct ssll_arrival *arrival, __u64 socket)
{
	__u64 watched_since = *(volatile __u64 *)&handshake_counters.watches_reads_ns, ssl;

	if (!handshake || !thread || !arrival || (handshake->phase && !is_transport(handshake->phase)))
		return 0;
	if (handshake->socket == socket) { /* so it is its own, not one that is read for it */
		handshake->flags &= ~SSLL_FLAG_FED;
		return 0;
	}
	ssl = thread->ssl;
	if (handshake->socket) {
		doubt_socket(handshake, ssl);
		return 0;
	}
	if (!may_own(handshake, ssl, arrival))
		return 0;
	handshake->socket = socket;
	begin_wire(handshake);
	look_for_peer(handshake);
	if (reads_first_bytes(arrival, watched_since) && !arrival->is_read) {
		if (handshake->calls == 1)
			add_hello(handshake, arrival);
		else
			split_wait(handshake, ssl, arrival, thread->call.at_ns);
	}
	arrival->ssl = NOBODY_WAITS;
	return 0;
}

/* The thread that runs has read from a TCP socket. */
static __always_inline int note_read(__u64 socket)
{
	struct ssll_arrival *arrival = find_arrival(socket);
	__u64 watched_since = *(volatile __u64 *)&handshake_counters.watches_reads_ns;
	struct ssll_handshake *handshake;
	struct ssll_thread *thread;

	if (!arrival || !watched_since)
		return 0;
	thread = find_thread();
	handshake = thread ? find_handshake(thread->ssl, this_process()) : NULL;
	if (handshake && handshake->depth)
		own_within(handshake, thread, arrival, socket);
	else if (thread)
		thread->read_socket = thread->read_socket && thread->read_socket != socket ? SEVERAL_SOCKETS : socket;
	if (!arrival->ssl)
		arrival->is_read = 1;
	return 0;
}

/* A call begins in a thread that works for no other handshake, of a handshake that may be fed. */
__noinline int own_fed(struct ssll_handshake *handshake, struct ssll_thread *thread, __u64 ssl)
{
	__u64 watched_since = *(volatile __u64 *)&handshake_counters.watches_reads_ns, socket;
	struct ssll_arrival *arrival;

	if (!handshake || !thread)
		return 0;
	socket = thread->read_socket;
	thread->read_socket = 0;
	if (!socket || socket == SEVERAL_SOCKETS || socket == handshake->socket || thread->speaks_quic)
		return 0;
	if (handshake->socket) {
		if (handshake->flags & SSLL_FLAG_FED)
			disown(handshake);
		return 0;
	}
	arrival = bpf_map_lookup_elem(&arrivals, &socket);
	if (!arrival || !may_own(handshake, ssl, arrival))
		return 0;
	handshake->socket = socket;
	handshake->flags |= SSLL_FLAG_FED;
	begin_wire(handshake);
	if (!reads_first_bytes(arrival, watched_since) || arrival->is_late)
		arrival->ssl = NOBODY_WAITS;
	else if (handshake->waiting == SSLL_PART_WAIT_PEER)
		adopt_arrival(arrival, ssl, handshake->since_ns);
	else {
		if (!handshake->calls)
			add_hello(handshake, arrival);
		arrival->ssl = NOBODY_WAITS;
	}
	return 0;
}

#endif
