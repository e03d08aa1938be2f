/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The two ends of a socket that this process has open, as the kernel knows them. */
#ifndef SOCKETS_BPF_H
#define SOCKETS_BPF_H

#include <bpf/bpf_endian.h>

#include "common/tasks.bpf.h"

/* include/linux/socket.h, include/uapi/linux/stat.h */
enum {
	LOCAL_SOCKET = 1,
	IPV4_SOCKET = 2,
	IPV6_SOCKET = 10,
	TCP = 6,
	UDP = 17,
	KIND_OF_FILE = 0170000,
	SOCKET_FILE = 0140000,
};

struct inode {
	unsigned short i_mode;
} __attribute__((preserve_access_index));

struct file {
	struct inode *f_inode;
	void *private_data;
} __attribute__((preserve_access_index));

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
} __attribute__((preserve_access_index));

struct files_struct {
	struct fdtable *fdt;
} __attribute__((preserve_access_index));

/* The rest of it is in tasks.bpf.h. */
struct task_struct___files {
	struct files_struct *files;
} __attribute__((preserve_access_index));

struct in6_addr {
	__u8 bytes[16]; /* a union in the kernel: never asked for by name */
};

struct sock_common {
	unsigned long skc_flags;
	__u32 skc_daddr;
	__u16 skc_dport;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	struct in6_addr skc_v6_daddr;
} __attribute__((preserve_access_index));

struct sock {
	struct sock_common __sk_common;
	__u16 sk_protocol;
	int sk_sndbuf;
	int sk_err;
} __attribute__((preserve_access_index));

/* Its port stays when the connection is gone, which skc_num doesn't. */
struct inet_sock {
	struct sock sk;
	__u16 inet_sport;
} __attribute__((preserve_access_index));

struct minmax_sample {
	__u32 v;
} __attribute__((preserve_access_index));

struct minmax {
	struct minmax_sample s[3];
} __attribute__((preserve_access_index));

struct tcp_sock {
	__u64 bytes_received;
	__u64 first_tx_mstamp; /* us, on the monotonic clock */
	__u32 rcv_nxt;
	__u32 copied_seq;
	__u32 write_seq;
	__u32 snd_nxt;
	__u32 packets_out;
	__u32 snd_cwnd;
	__u32 snd_wnd;
	__u32 mss_cache;
	__u32 data_segs_out;
	__u32 total_retrans;
	__u32 rcv_ooopack;
	struct minmax rtt_min;
} __attribute__((preserve_access_index));

struct socket {
	struct sock *sk;
} __attribute__((preserve_access_index));

/* include/net/tcp_states.h */
enum {
	TCP_STATE_ESTABLISHED = 1,
	TCP_STATE_SYN_SENT = 2,
	TCP_STATE_SYN_RECV = 3,
	TCP_STATE_FIN_WAIT1 = 4,
	TCP_STATE_CLOSE = 7,
	TCP_STATE_CLOSE_WAIT = 8,
};

/* The ends of a socket. IPv4 in an IPv6 socket (::ffff:0:0/96) is IPv4. */
struct ends {
	__u32 family;
	__u16 port; /* this side's */
	__u16 peer_port;
	__u8 peer[16];
};

/* The socket behind a descriptor of this process; NULL where it is none. */
static __always_inline struct sock *find_socket(__u32 descriptor)
{
	const struct task_struct___files *task = (void *)bpf_get_current_task_btf(); /* read without a helper's call */
	const struct fdtable *table = task->files->fdt;
	struct file **files = table->fd, *file = NULL;
	struct socket *socket;

	if (descriptor >= table->max_fds || bpf_probe_read_kernel(&file, sizeof(file), files + descriptor) || !file)
		return NULL;
	if ((BPF_CORE_READ(file, f_inode, i_mode) & KIND_OF_FILE) != SOCKET_FILE)
		return NULL;
	socket = BPF_CORE_READ(file, private_data);
	return BPF_CORE_READ(socket, sk);
}

/* Whether it is a TCP socket. One of MPTCP isn't: what arrives there came by others. */
static __always_inline bool is_tcp(struct sock *sock)
{
	__u32 family = BPF_CORE_READ(sock, __sk_common.skc_family);

	return (family == IPV4_SOCKET || family == IPV6_SOCKET) && BPF_CORE_READ(sock, sk_protocol) == TCP;
}

static __always_inline bool is_udp(struct sock *sock)
{
	__u32 family = BPF_CORE_READ(sock, __sk_common.skc_family);

	return (family == IPV4_SOCKET || family == IPV6_SOCKET) && BPF_CORE_READ(sock, sk_protocol) == UDP;
}

/* Whether it is a UDP socket that takes what anybody sends. */
static __always_inline bool is_open_udp(struct sock *sock)
{
	return is_udp(sock) && !BPF_CORE_READ(sock, __sk_common.skc_dport);
}

/* The sequence number behind the last byte that a TCP socket has received in order. */
static __always_inline __u32 received_seq(struct sock *sock)
{
	return BPF_CORE_READ((struct tcp_sock *)sock, rcv_nxt);
}

/* The sequence number behind the last byte that was read from a TCP socket. */
static __always_inline __u32 read_seq(struct sock *sock)
{
	return BPF_CORE_READ((struct tcp_sock *)sock, copied_seq);
}

/* The same, but for the end of the peer's stream, which takes a number, too. */
static __always_inline __u32 received_bytes_seq(struct sock *sock)
{
	return received_seq(sock) - (BPF_CORE_READ(sock, __sk_common.skc_flags) >> 1 & 1); /* SOCK_DONE */
}

/* How many bytes lie in a TCP socket that have arrived and weren't read. */
static __always_inline __u32 unread_bytes(struct sock *sock)
{
	return received_seq(sock) - read_seq(sock);
}

/* Whether something has been read from a TCP socket. */
static __always_inline bool is_read_from(struct sock *sock)
{
	return BPF_CORE_READ((struct tcp_sock *)sock, bytes_received) > unread_bytes(sock);
}

/* The shortest round trip of late, ns; 0: none was measured. */
static __always_inline __u64 least_round_trip_ns(struct sock *sock)
{
	__u32 least_us = BPF_CORE_READ((struct tcp_sock *)sock, rtt_min.s[0].v);

	return least_us == ~0U ? 0 : least_us * 1000ULL;
}

/* Whether the application has closed it; a connection that wasn't accepted yet is nobody's, and isn't. */
static __always_inline bool is_closed_by_owner(struct sock *sock)
{
	return BPF_CORE_READ(sock, __sk_common.skc_flags) & 1; /* SOCK_DEAD */
}

/* Whether the peer has closed or reset its connection, as far as this side hasn't closed it. */
static __always_inline bool is_left_by_peer(struct sock *sock)
{
	__u8 state = BPF_CORE_READ(sock, __sk_common.skc_state);

	return state == TCP_STATE_CLOSE || state == TCP_STATE_CLOSE_WAIT;
}

/* This side's port. */
static __always_inline __u16 port_of(struct sock *sock)
{
	return bpf_ntohs(BPF_CORE_READ((struct inet_sock *)sock, inet_sport));
}

static __always_inline bool is_mapped_ipv4(const __u8 *address)
{
	const __u32 *words = (const __u32 *)address;

	return !words[0] && !words[1] && words[2] == bpf_htonl(0xffff);
}

static __always_inline void read_peer(struct sock *sock, struct ends *ends)
{
	if (ends->family == IPV4_SOCKET) {
		BPF_CORE_READ_INTO((__u32 *)ends->peer, sock, __sk_common.skc_daddr);
		return;
	}
	if (!bpf_core_field_exists(sock->__sk_common.skc_v6_daddr)) /* a kernel without IPv6 */
		return;
	bpf_core_read(ends->peer, sizeof(ends->peer), &sock->__sk_common.skc_v6_daddr);
	if (is_mapped_ipv4(ends->peer)) {
		ends->family = IPV4_SOCKET;
		*(__u32 *)ends->peer = *(__u32 *)(ends->peer + 12);
		__builtin_memset(ends->peer + 4, 0, 12);
	}
}

/* Whether the socket is of a family that has ends, or a Unix one. */
static __always_inline bool read_ends(struct sock *sock, struct ends *ends)
{
	ends->family = BPF_CORE_READ(sock, __sk_common.skc_family);
	if (ends->family == LOCAL_SOCKET)
		return true;
	if (ends->family != IPV4_SOCKET && ends->family != IPV6_SOCKET)
		return false;
	ends->port = port_of(sock);
	ends->peer_port = bpf_ntohs(BPF_CORE_READ(sock, __sk_common.skc_dport));
	read_peer(sock, ends);
	return true;
}

#endif
