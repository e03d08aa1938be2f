/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * At which port handshakes over QUIC come in, where what is sent doesn't tell (handshakes/quic_peers.bpf.h). Their first packet
 * comes from a peer that isn't known yet, so by a UDP socket that isn't connected. Where all that a process has received by
 * such ones since it was watched came at one port, so did that packet. From when on a second port is seen, handshakes have
 * none.
 *
 * Nothing is watched before a process is seen to serve over QUIC. A packet may have been received before that and wait to be
 * dealt with, so that only handshakes count that begin a while later.
 */
#ifndef DATAGRAMS_BPF_H
#define DATAGRAMS_BPF_H

#include "labels/sockets.bpf.h"
#include "running/running.bpf.h"

#define WATCHED_LONG_NS 1000000000ULL

/* By process that serves over QUIC; many, where ports are wanted. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ssll_datagrams);
} datagrams SEC(".maps");

/* The process that runs serves over QUIC. `tells`: by a library whose handshakes tell the IDs of their connections. */
static __always_inline void watch_datagrams(__u32 tgid, bool tells)
{
	struct ssll_datagrams none = {.since_ns = bpf_ktime_get_ns(), .tells = tells};
	struct ssll_datagrams *seen = bpf_map_lookup_elem(&datagrams, &tgid);

	if (!seen)
		bpf_map_update_elem(&datagrams, &tgid, &none, BPF_NOEXIST);
	else if (tells)
		seen->tells = 1;
}

/* The port at which a handshake came in that began then, over QUIC; 0 where that isn't known. */
static __always_inline __u32 port_of_datagrams(__u64 began_ns)
{
	__u64 watched_ns = *(volatile __u64 *)&handshake_counters.watches_datagrams_ns;
	__u32 tgid = this_process();
	struct ssll_datagrams *seen = bpf_map_lookup_elem(&datagrams, &tgid);

	if (!seen || !watched_ns || began_ns < watched_ns + WATCHED_LONG_NS || began_ns < seen->since_ns + WATCHED_LONG_NS)
		return 0;
	return *(volatile __u32 *)&seen->several ? 0 : seen->port;
}

/* The process that runs has received so many bytes by a socket of whatever kind, or an error. */
static __always_inline int note_datagram(__u64 socket, __s32 result)
{
	__u32 tgid = this_process(), port, first;
	struct ssll_datagrams *seen = bpf_map_lookup_elem(&datagrams, &tgid);

	if (!seen || result <= 0 || !is_open_udp((struct sock *)socket))
		return 0;
	port = port_of((struct sock *)socket);
	if (*(volatile __u32 *)&seen->port == port)
		return 0;
	first = __sync_val_compare_and_swap(&seen->port, 0, port);
	if (first && first != port)
		seen->several = 1;
	return 0;
}

#endif
