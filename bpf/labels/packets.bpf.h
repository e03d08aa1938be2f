/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * UDP packets that this machine sends, as they are handed to a device: who sends them to whom. One that isn't plain, as within
 * a tunnel, of several fragments or with options of IP, tells nothing.
 */
#ifndef PACKETS_BPF_H
#define PACKETS_BPF_H

#include "labels/sockets.bpf.h"

/* include/uapi/linux/if_ether.h; the first byte of IPv4's header, which says that it has no options; include/net/ip.h */
enum {
	ETHERTYPE_IPV4 = 0x0800,
	ETHERTYPE_IPV6 = 0x86dd,
	PLAIN_IPV4 = 0x45,
	FRAGMENT = 0x3fff,
	QUIC_LONG_HEADER = 0x80, /* the first bit: RFC 9000, 17.2 */
};

struct sk_buff___sent {
	unsigned char *head;
	unsigned char *data;
	unsigned int len;
	unsigned int data_len;
	__u16 protocol;
	__u16 network_header;
	__u16 transport_header;
	struct sock *sk;
} __attribute__((preserve_access_index));

struct ipv4_header {
	__u8 version;
	__u8 service;
	__u16 length;
	__u16 id;
	__u16 fragment;
	__u8 hops;
	__u8 protocol;
	__u16 sum;
	__u32 source;
	__u32 destination;
};

struct ipv6_header {
	__u32 version;
	__u16 length;
	__u8 protocol;
	__u8 hops;
	__u8 source[16];
	__u8 destination[16];
};

struct udp_header {
	__u16 source;
	__u16 destination;
	__u16 length;
	__u16 sum;
};

/* Reads the packet's destination; returns how long its header is, 0 of one that isn't plain UDP. */
static __noinline __u32 read_destination(__u64 at, __u16 protocol, struct ends *ends)
{
	union {
		struct ipv4_header v4;
		struct ipv6_header v6;
	} header;

	if (protocol == bpf_htons(ETHERTYPE_IPV4)) {
		if (bpf_probe_read_kernel(&header.v4, sizeof(header.v4), (void *)at) || header.v4.version != PLAIN_IPV4 ||
		        header.v4.protocol != UDP || header.v4.fragment & bpf_htons(FRAGMENT))
			return 0;
		ends->family = IPV4_SOCKET;
		__builtin_memcpy(ends->peer, &header.v4.destination, 4);
		return sizeof(header.v4);
	}
	if (protocol != bpf_htons(ETHERTYPE_IPV6) || bpf_probe_read_kernel(&header.v6, sizeof(header.v6), (void *)at) ||
	        (header.v6.version & bpf_htonl(0xf0000000)) != bpf_htonl(0x60000000) || header.v6.protocol != UDP)
		return 0;
	ends->family = IPV6_SOCKET;
	__builtin_memcpy(ends->peer, header.v6.destination, 16);
	return sizeof(header.v6);
}

/* Whether a packet may be one of UDP that begins with a long header of QUIC. Most that a server sends aren't, and end here. */
static __always_inline bool may_have_long_header(const struct sk_buff___sent *buffer)
{
	struct sock *sock = BPF_CORE_READ(buffer, sk);
	__u64 at = (__u64)BPF_CORE_READ(buffer, head) + BPF_CORE_READ(buffer, transport_header) + sizeof(struct udp_header);
	__u8 first;

	return sock && BPF_CORE_READ(sock, sk_protocol) == UDP && !bpf_probe_read_kernel(&first, sizeof(first), (void *)at) &&
	       first & QUIC_LONG_HEADER;
}

/* Reads the two ends of a UDP packet that one of this machine's sockets sends under its own port; returns the address of what
 * it carries, 0 where it isn't plain. */
static __always_inline __u64 read_sent(const struct sk_buff___sent *buffer, struct ends *ends)
{
	__u64 head = (__u64)BPF_CORE_READ(buffer, head);
	__u32 network = BPF_CORE_READ(buffer, network_header);
	struct sock *sock = BPF_CORE_READ(buffer, sk);
	struct udp_header udp;
	__u32 length;

	if (!sock)
		return 0;
	length = read_destination(head + network, BPF_CORE_READ(buffer, protocol), ends);
	if (!length || network + length != BPF_CORE_READ(buffer, transport_header) || BPF_CORE_READ(sock, sk_protocol) != UDP ||
	        bpf_probe_read_kernel(&udp, sizeof(udp), (void *)(head + network + length)))
		return 0;
	ends->port = bpf_ntohs(udp.source);
	ends->peer_port = bpf_ntohs(udp.destination);
	return ends->port == port_of(sock) ? head + network + length + sizeof(udp) : 0;
}

/* Where the packet's bytes end that lie with its headers. */
static __always_inline __u64 end_of_sent(const struct sk_buff___sent *buffer)
{
	return (__u64)BPF_CORE_READ(buffer, data) + BPF_CORE_READ(buffer, len) - BPF_CORE_READ(buffer, data_len);
}

#endif
