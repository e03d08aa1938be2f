/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a handshake's connection says of its own: how large this side's flights are and whether they could be sent at once, what
 * was lost on the way, and whether the peer is still there. Read where a call begins and ends, so it costs no event.
 */
#ifndef WIRE_BPF_H
#define WIRE_BPF_H

#include "labels/sockets.bpf.h"
#include "running/running.bpf.h"

#define BUFFER_OVERHEAD 8192 /* bytes */
#define NOT_KNOWN (~0ULL)

static __always_inline void read_losses(struct sock *sock, __u32 *resent, __u32 *losses)
{
	struct tcp_sock *tcp = (struct tcp_sock *)sock;

	*resent = BPF_CORE_READ(tcp, total_retrans);
	*losses = *resent + BPF_CORE_READ(tcp, rcv_ooopack);
}

/* The handshake's socket is known from now on. */
static __always_inline void begin_wire(struct ssll_handshake *handshake)
{
	struct sock *sock = (struct sock *)handshake->socket;

	handshake->written_seq = BPF_CORE_READ((struct tcp_sock *)sock, write_seq);
	handshake->segments = BPF_CORE_READ((struct tcp_sock *)sock, data_segs_out);
	read_losses(sock, &handshake->resent, &handshake->losses);
}

/* What this side has written since this was last asked is a flight. Returns its size. */
static __always_inline __u32 add_flight(struct ssll_handshake *handshake)
{
	struct tcp_sock *tcp = (struct tcp_sock *)handshake->socket;
	__u32 written_seq = BPF_CORE_READ(tcp, write_seq), bytes = written_seq - handshake->written_seq;

	handshake->written_seq = written_seq;
	handshake->segments = BPF_CORE_READ(tcp, data_segs_out);
	if ((__s32)bytes <= 0)
		return 0;
	handshake->flags |= SSLL_FLAG_AWAITS_ANSWER;
	if (bytes > handshake->flight_bytes)
		handshake->flight_bytes = bytes;
	if (BPF_CORE_READ(tcp, snd_nxt) != written_seq && BPF_CORE_READ(tcp, packets_out) >= BPF_CORE_READ(tcp, snd_cwnd))
		handshake->flags |= SSLL_FLAG_UNSENT | SSLL_FLAG_UNSENT_NOW;
	return bytes;
}

/* The library waits for its peer. */
static __always_inline void end_flight(struct ssll_handshake *handshake)
{
	read_losses((struct sock *)handshake->socket, &handshake->resent, &handshake->losses);
	add_flight(handshake);
}

/*
 * Whether the library's writes since the last flight may have filled the connection's buffer, so that one of them waited for
 * room. What the last flight left unacknowledged may be in it, too, and the kernel counts up to twice the bytes and a few
 * buffers.
 */
static __always_inline bool may_fill_buffer(const struct ssll_handshake *handshake)
{
	struct tcp_sock *tcp = (struct tcp_sock *)handshake->socket;
	__u32 bytes;

	if (!tcp)
		return true;
	bytes = BPF_CORE_READ(tcp, write_seq) - handshake->written_seq + handshake->flight_bytes;
	return 2 * bytes + BUFFER_OVERHEAD >= (__u32)BPF_CORE_READ((struct sock *)tcp, sk_sndbuf);
}

/* Whether a flight left at once as it was written, in as few segments as it fills: no acknowledgement and no room at the peer
 * had to be waited for. Each segment that was acknowledged since may have opened the window by one. */
static __always_inline bool is_sent_at_once(const struct tcp_sock *tcp, __u32 bytes, __u32 segments)
{
	__u32 largest = BPF_CORE_READ(tcp, mss_cache), window = BPF_CORE_READ(tcp, snd_cwnd);

	return largest && segments == (bytes + largest - 1) / largest &&
	       2 * segments <= window + (__u32)BPF_CORE_READ(tcp, packets_out) &&
	       2 * bytes <= (__u32)BPF_CORE_READ(tcp, snd_wnd);
}

/*
 * How long the application took to write a flight, after the call that made it had come back; 0: the call has written it
 * itself. The kernel keeps when the first segment left of those that are under way, or the last one that was acknowledged.
 * Where some were sent again, all of the wait is one with losses.
 */
static __always_inline __u64 time_to_write(struct ssll_handshake *handshake, __u64 since)
{
	struct tcp_sock *tcp = (struct tcp_sock *)handshake->socket;
	__u32 segments = handshake->segments, bytes = add_flight(handshake);
	__u64 sent;

	if (!bytes || handshake->resent != (__u32)BPF_CORE_READ(tcp, total_retrans))
		return 0;
	if (!bpf_core_field_exists(tcp->first_tx_mstamp) || !is_sent_at_once(tcp, bytes, handshake->segments - segments))
		return NOT_KNOWN;
	sent = BPF_CORE_READ(tcp, first_tx_mstamp) * 1000 + 999; /* the last moment that it may have been */
	return sent < since ? NOT_KNOWN : sent - since;
}

/* The least that the network needs to carry the last flight and its answer. */
static __always_inline __u64 least_network_ns(struct ssll_handshake *handshake)
{
	__u64 round_trip_ns = least_round_trip_ns((struct sock *)handshake->socket);

	if (handshake->flags & SSLL_FLAG_UNSENT_NOW)
		round_trip_ns *= 2;
	handshake->flags &= ~SSLL_FLAG_UNSENT_NOW;
	return round_trip_ns;
}

/* A wait for the peer has ended, of which so much was the peer's. */
static __always_inline void add_losses(struct ssll_handshake *handshake, __u64 peers_ns)
{
	__u32 resent, losses;

	read_losses((struct sock *)handshake->socket, &resent, &losses);
	if (losses == handshake->losses)
		return;
	handshake->retransmissions += resent - handshake->resent;
	handshake->resent = resent;
	handshake->losses = losses;
	handshake->flags |= SSLL_FLAG_LOST;
	handshake->parts[SSLL_PART_LOSSES] += peers_ns;
}

/* A call begins, or its socket becomes known. */
static __always_inline void look_for_peer(struct ssll_handshake *handshake)
{
	if (handshake->socket && is_left_by_peer((struct sock *)handshake->socket))
		handshake->flags |= SSLL_FLAG_GONE | SSLL_FLAG_GONE_NOW;
}

/* A call that has taken from since_ns until now ends. */
static __always_inline void add_gone(struct ssll_handshake *handshake, __u64 now)
{
	if (handshake->flags & SSLL_FLAG_GONE_NOW)
		handshake->parts[SSLL_PART_GONE] += now - handshake->since_ns;
	handshake->flags &= ~SSLL_FLAG_GONE_NOW;
}

#endif
