/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * When the peer's bytes arrived. A wait for the peer is the peer's and the network's until then, and this server's queue from
 * then on until it comes back for them.
 *
 * The kernel tells of each arrival (sk_data_ready; before Linux 6.3 tcp_probe), and of each connection that is established.
 * Both run on every core, for every socket of the machine, so they do nothing where no handshake waits for it, which a small
 * table tells of most sockets without a look-up. A socket waits from the end of a call that wanted to read; one whose
 * connection was just established waits for its ClientHello. What had arrived between the library's last look at the socket and
 * the end of its call lies unread there then, and has arrived at that end at the latest.
 */
#ifndef ARRIVALS_BPF_H
#define ARRIVALS_BPF_H

#include "labels/who.bpf.h"
#include "running/history.bpf.h"
#include "running/wire.bpf.h"

enum {
	PARTS_OF_QUEUE = 20, /* bytes that came later by no more than one of them don't matter */
	SLACK_NS = 50000,    /* nor do those that came later by no more than this */
};

/* `ssl` of an arrival: the bytes that came are dealt with, and no handshake waits for more. */
#define NOBODY_WAITS (~0ULL)

/* The first two words of a segment's control block: include/net/tcp.h, struct tcp_skb_cb. */
struct segment {
	__u32 seq;
	__u32 end_seq;
};

struct sk_buff {
	char cb[48];
} __attribute__((preserve_access_index));

/* One that is pushed out leaves its wait unsplit. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, struct ssll_arrival);
} arrivals SEC(".maps");

const struct ssll_arrival blank_arrival = {};

/* How many arrivals are kept of the sockets that share a place; more after some were pushed out. */
__u32 kept_arrivals[1 << 15];

static __always_inline __u32 *place_of_socket(__u64 socket)
{
	return &kept_arrivals[(socket >> 6 ^ socket >> 21) & (sizeof(kept_arrivals) / sizeof(*kept_arrivals) - 1)];
}

static __always_inline struct ssll_arrival *find_arrival(__u64 socket)
{
	return *(volatile __u32 *)place_of_socket(socket) ? bpf_map_lookup_elem(&arrivals, &socket) : NULL;
}

/* In place of what is kept of another connection that had this socket. */
static __always_inline void keep_arrival(__u64 socket, const struct ssll_arrival *arrival)
{
	if (!bpf_map_update_elem(&arrivals, &socket, arrival, BPF_NOEXIST))
		__sync_fetch_and_add(place_of_socket(socket), 1);
	else
		bpf_map_update_elem(&arrivals, &socket, arrival, BPF_ANY);
}

static __always_inline void forget_arrival(__u64 socket)
{
	if (!bpf_map_delete_elem(&arrivals, &socket))
		__sync_fetch_and_add(place_of_socket(socket), -1);
}

/* A connection is over: what is kept of it goes, if nobody waits or may still begin a handshake on it. */
static __always_inline void end_connection(__u64 socket)
{
	struct ssll_arrival *arrival = find_arrival(socket);

	if (arrival && (!arrival->ssl || arrival->ssl == NOBODY_WAITS) && is_closed_by_owner((struct sock *)socket))
		forget_arrival(socket);
}

/*
 * One of the ends leaves the connection: noted as it happens, for a handshake that is freed later, as its socket may be closed
 * by then and another connection's. A reset leaves its error in the socket before it changes the state.
 */
static __always_inline void note_leaving(__u64 socket, __u32 new_state)
{
	struct ssll_arrival *arrival = find_arrival(socket);
	struct sock *sock = (struct sock *)socket;

	if (!arrival || arrival->left || arrival->is_renewed)
		return;
	arrival->sent_seq = received_bytes_seq(sock);
	arrival->left = new_state == TCP_STATE_CLOSE_WAIT || (new_state == TCP_STATE_CLOSE && BPF_CORE_READ(sock, sk_err))
	                        ? SSLL_LEFT_BY_PEER
	                        : SSLL_LEFT_BY_OWNER;
}

/* This side asks for a connection: what is kept of its socket is of another one that had it. Where no handshake began on that,
 * as it was reset before, nobody asks for it any more, and the new connection would be taken for it. */
static __always_inline void note_renewal(__u64 socket)
{
	struct ssll_arrival *arrival = find_arrival(socket);

	if (!arrival)
		return;
	if (arrival->ssl)
		arrival->is_renewed = 1;
	else
		forget_arrival(socket);
}

/* A connection changes its state: one that a peer asked for is established, one begins, or an end leaves it. */
static __always_inline int note_established(__u64 socket, __u32 old_state, __u32 new_state)
{
	struct ssll_arrival arrival = {};

	if (new_state == TCP_STATE_CLOSE || new_state == TCP_STATE_CLOSE_WAIT || new_state == TCP_STATE_FIN_WAIT1)
		note_leaving(socket, new_state);
	if (new_state == TCP_STATE_CLOSE)
		end_connection(socket);
	if (new_state == TCP_STATE_SYN_SENT)
		note_renewal(socket);
	if (old_state != TCP_STATE_SYN_RECV || new_state != TCP_STATE_ESTABLISHED)
		return 0;
	arrival.established_ns = bpf_ktime_get_ns();
	keep_arrival(socket, &arrival);
	return 0;
}

/* Bytes that can be read have arrived, up to `seq`. */
static __always_inline int note_arrival(struct ssll_arrival *arrival, __u64 socket, __u32 seq)
{
	__u64 now;

	if (arrival->ssl == NOBODY_WAITS)
		return 0;
	arrival->arrivals++;
	arrival->is_late |= arrival->is_read;
	now = bpf_ktime_get_ns();
	arrival->last_ns = now;
	if (arrival->arrived_ns)
		return 0;
	if (arrival->task) /* else it isn't known which one will come */
		read_clocks((struct task_struct *)arrival->task, arrival->tid, &arrival->clocks, now);
	else
		sample_workers(port_of((struct sock *)socket), now);
	arrival->seq = seq;
	arrival->arrived_ns = now;
	return 0;
}

/* Any socket of the machine, of whatever kind: what isn't TCP is in no table. */
static __always_inline int note_data_ready(__u64 socket)
{
	struct ssll_arrival *arrival = find_arrival(socket);

	return arrival ? note_arrival(arrival, socket, received_seq((struct sock *)socket)) : 0;
}

/* Before Linux 6.3: a segment that the kernel has yet to take in. Only what continues what was received can be read then. */
static __always_inline int note_segment(__u64 socket, const struct sk_buff *buffer)
{
	struct ssll_arrival *arrival = find_arrival(socket);
	struct segment segment;
	__u32 next;

	if (!arrival || bpf_core_read(&segment, sizeof(segment), &buffer->cb))
		return 0;
	next = received_seq((struct sock *)socket);
	if ((__s32)(segment.seq - next) > 0 || (__s32)(segment.end_seq - next) <= 0)
		return 0;
	return note_arrival(arrival, socket, segment.end_seq);
}

/* The TCP socket that the library reads from itself; 0 where there is none, or it can't be told. */
__noinline __u64 socket_of(__u64 ssl, const struct ssll_library *library)
{
	__u32 descriptor;
	struct sock *sock;

	if (!library || !read_descriptor(ssl, library, &descriptor))
		return 0;
	sock = find_socket(descriptor);
	return sock && is_tcp(sock) ? (__u64)sock : 0;
}

/* From `now` on the handshake waits for its peer at its socket, in this thread. */
__noinline int await_arrival(struct ssll_handshake *handshake, __u64 ssl, __u64 now)
{
	struct ssll_arrival *arrival;
	__u64 socket = handshake ? handshake->socket : 0;

	if (!socket || !*(volatile __u64 *)&handshake_counters.watches_arrivals)
		return 0;
	end_flight(handshake);
	arrival = find_arrival(socket);
	if (!arrival) {
		keep_arrival(socket, &blank_arrival);
		arrival = find_arrival(socket);
	}
	if (!arrival)
		return 0;
	if (arrival->is_renewed)
		arrival->left = arrival->is_renewed = 0;
	arrival->arrived_ns = arrival->arrivals = 0;
	arrival->clocks.tid = 0;
	arrival->task = bpf_get_current_task();
	arrival->tid = this_thread();
	arrival->since_ns = now;
	arrival->given_seq = read_seq((struct sock *)socket);
	arrival->ssl = ssl;
	if (unread_bytes((struct sock *)socket))
		note_arrival(arrival, socket, received_seq((struct sock *)socket));
	return 0;
}

/* The application may have given the SSL another socket since. */
static __always_inline void find_socket_again(struct ssll_handshake *handshake, __u64 ssl)
{
	__u64 socket = socket_of(ssl, library_of(handshake->library));

	if (!socket || socket == handshake->socket)
		return;
	handshake->socket = socket;
	handshake->flags &= ~SSLL_FLAG_FED;
	begin_wire(handshake);
}

/* The arrival turns out to be the one that the handshake has awaited since then. */
static __always_inline void adopt_arrival(struct ssll_arrival *arrival, __u64 ssl, __u64 since)
{
	arrival->since_ns = since;
	arrival->ssl = ssl;
}

/* That of the handshake's socket; NULL where there is none, or nothing is known of the socket. */
static __always_inline struct ssll_arrival *arrival_of(const struct ssll_handshake *handshake)
{
	__u64 socket = handshake->socket; /* Linux 6.1 takes no key out of what a function was handed */

	return socket ? bpf_map_lookup_elem(&arrivals, &socket) : NULL;
}

/* The arrival that was awaited since then; NULL where none was, or it was pushed out. */
static __always_inline struct ssll_arrival *awaited_arrival(const struct ssll_handshake *handshake, __u64 ssl, __u64 since)
{
	struct ssll_arrival *arrival = arrival_of(handshake);

	return arrival && arrival->ssl == ssl && arrival->since_ns == since ? arrival : NULL;
}

/*
 * The handshake is freed while it waits for its peer: whether that had left, and whether its last bytes never came to the
 * library. Where the socket's record is still the one that the wait began with, and neither end was seen to leave, the socket
 * is open and the same. One that was closed may be another connection's by now: then its record tells, if that is still there.
 */
__noinline int look_who_left(struct ssll_handshake *handshake, __u64 ssl)
{
	struct ssll_arrival *arrival;
	__u32 sent_seq, peer = SSLL_PEER_KNOWN;
	struct sock *sock;

	if (!handshake || handshake->waiting != SSLL_PART_WAIT_PEER)
		return 0;
	arrival = awaited_arrival(handshake, ssl, handshake->since_ns);
	if (!arrival || (arrival->is_renewed && !arrival->left))
		return 0;
	sock = (struct sock *)handshake->socket;
	sent_seq = arrival->left ? arrival->sent_seq : received_bytes_seq(sock);
	if (arrival->left ? arrival->left == SSLL_LEFT_BY_PEER : is_left_by_peer(sock))
		peer |= SSLL_PEER_LEFT;
	if ((__s32)(sent_seq - arrival->given_seq) > 0)
		peer |= SSLL_PEER_UNDELIVERED;
	handshake->flags |= peer * SSLL_FLAG_PEER;
	return 0;
}

/* The thread that runs has come for what arrived then; of what has passed until now, so much is queue. */
__noinline int end_queue(
        struct ssll_handshake *handshake, const struct ssll_arrival *arrival, __u64 arrived, __u64 duration_ns, __u64 now)
{
	__u64 later_ns;

	if (!handshake || !arrival)
		return 0;
	later_ns = arrival->last_ns - arrived;
	if (arrival->arrivals > 1 && later_ns > SLACK_NS && later_ns * PARTS_OF_QUEUE > duration_ns) {
		handshake->flags |= SSLL_FLAG_SEVERAL;
		handshake->arrived_seq = arrival->seq;
	}
	return add_meanwhile(handshake, &arrival->clocks, arrived, duration_ns, now);
}

/* Adds what passed before the first call where the ClientHello had arrived by then. Returns how long it lay there. */
static __always_inline __u64 add_start(struct ssll_handshake *handshake, const struct ssll_arrival *arrival)
{
	__u64 arrived = arrival->arrived_ns;

	if (!arrived || arrived >= handshake->began_ns)
		return 0;
	handshake->parts[SSLL_PART_WAIT_HELLO] = arrived - arrival->established_ns;
	handshake->parts[SSLL_PART_QUEUE_START] = handshake->began_ns - arrived;
	return handshake->began_ns - arrived;
}

/* The peer was waited for so long, but for the time until the application had written what it answered. Where that isn't known,
 * whose all of it was isn't known either. */
static __always_inline void add_peers(struct ssll_handshake *handshake, __u64 peers_ns, __u64 write_ns)
{
	if (write_ns == NOT_KNOWN) {
		handshake->parts[SSLL_PART_WAIT_PEER_OR_SERVER] += peers_ns;
		return;
	}
	write_ns = at_most(write_ns, peers_ns);
	peers_ns -= write_ns;
	handshake->parts[SSLL_PART_WAIT_APPLICATION] += write_ns;
	handshake->parts[SSLL_PART_WAIT_PEER] += peers_ns;
	handshake->parts[SSLL_PART_ROUND_TRIPS] += at_most(least_network_ns(handshake), peers_ns);
	add_losses(handshake, peers_ns);
}

/* A wait for the peer ends at `now`: splits it at the arrival. */
__noinline int end_peer_wait(struct ssll_handshake *handshake, __u64 ssl, __u64 since, __u64 now)
{
	struct ssll_arrival *arrival;
	__u64 arrived, peers_ns, early_ns, write_ns;

	if (!handshake)
		return 0;
	arrival = awaited_arrival(handshake, ssl, since);
	arrived = arrival ? arrival->arrived_ns : 0;
	if (!arrival || (!arrived && (handshake->flags & SSLL_FLAG_FED || unread_bytes((struct sock *)handshake->socket)))) {
		handshake->parts[SSLL_PART_WAIT_PEER_OR_SERVER] += now - since;
		handshake->unsplit_since_ns = since;
		return 0;
	}
	write_ns = time_to_write(handshake, since);
	if (arrived) {
		handshake->flights += !!(handshake->flags & SSLL_FLAG_AWAITS_ANSWER);
		handshake->flags &= ~SSLL_FLAG_AWAITS_ANSWER;
	}
	early_ns = add_start(handshake, arrival); /* of a first call that came back to wait for it all the same */
	peers_ns = arrived ? at_most(less(arrived, since), now - since) : now - since;
	arrived = since + peers_ns;
	add_peers(handshake, peers_ns, write_ns);
	handshake->parts[SSLL_PART_QUEUE_SERVER] += now - arrived;
	if (now > arrived)
		end_queue(handshake, arrival, arrived - early_ns, now - arrived + early_ns, now);
	arrival->ssl = NOBODY_WAITS;
	return 0;
}

/*
 * What had arrived was read. Where bytes came more than once, and the library didn't stop at those that came first, the server
 * may have come back in vain had it done so at once: then a part of its queue is the peer's.
 */
static __always_inline void judge_split(struct ssll_handshake *handshake)
{
	if (!(handshake->flags & SSLL_FLAG_SEVERAL))
		return;
	handshake->flags &= ~SSLL_FLAG_SEVERAL;
	if ((__s32)(read_seq((struct sock *)handshake->socket) - handshake->arrived_seq) > 0)
		handshake->flags |= SSLL_FLAG_BOUNDED;
}

/* What passed before the first call, of a connection whose first bytes were the ClientHello. */
static __always_inline void add_hello(struct ssll_handshake *handshake, const struct ssll_arrival *arrival)
{
	__u64 queue_ns = arrival->ssl ? 0 : add_start(handshake, arrival);

	if (queue_ns)
		end_queue(handshake, arrival, arrival->arrived_ns, queue_ns, handshake->began_ns);
	keep_worker(port_of((struct sock *)handshake->socket), handshake->began_ns);
}

/* The first call begins, of a library that reads its socket itself. Where something was read from that, it was no TLS. */
__noinline int begin_with_hello(struct ssll_handshake *handshake, __u64 ssl)
{
	struct ssll_arrival *arrival;

	if (!handshake)
		return 0;
	find_socket_again(handshake, ssl);
	arrival = arrival_of(handshake);
	if (!arrival) /* it was established before the trace, or by this side */
		return 0;
	if (!is_read_from((struct sock *)handshake->socket))
		add_hello(handshake, arrival);
	arrival->ssl = NOBODY_WAITS;
	return 0;
}

/* The handshake is over: what arrives now is nothing to it. */
static __always_inline void forget_arrivals(const struct ssll_handshake *handshake)
{
	__u64 socket = handshake->socket;

	if (socket)
		forget_arrival(socket);
}

#endif
