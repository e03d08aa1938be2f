/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The connection ID that a server of QUIC names in its transport parameters as that of the packets which it sends first, and
 * the one that a packet bears: RFC 9000, 7.3 and 17.2. The parameters go to any client that asks. Both are read within their
 * bounds, whatever lengths they have in them.
 */
#ifndef QUIC_IDS_BPF_H
#define QUIC_IDS_BPF_H

#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "handshake.h"

enum {
	TLS_ENCRYPTED_EXTENSIONS = 8,
	TLS_QUIC_PARAMETERS = 0x39, /* the extension: RFC 9001, 8.2 */
	QUIC_INITIAL_SOURCE_ID = 0x0f,
	QUIC_RETRY_SOURCE_ID = 0x10, /* there where the client's first Initial was answered with a Retry, and only then */
	QUIC_V1 = 1,
	QUIC_V2 = 0x6b3343cf, /* RFC 9369: kinds of packets have other numbers */
	MOST_EXTENSIONS = 16,
	MOST_PARAMETERS = 32,
	MOST_MESSAGE_BYTES = 4096,
	PARAMETERS_DAMAGED = 1, /* no address */
};

enum quic_retry {
	QUIC_RETRY_UNKNOWN = 0,
	QUIC_RETRY_NOT_SENT = 1,
	QUIC_RETRY_SENT = 2,
};

/* Reads an integer of QUIC's variable length, RFC 9000, 16. Returns where the next one begins; 0 where it doesn't end before
 * `end`. */
static __always_inline __u64 read_integer(__u64 at, __u64 end, __u64 *value)
{
	__u64 bytes[2] = {}; /* the second one is for older verifiers, which take a length below 16 for any such */
	__u8 first = 0;
	__u32 size;

	if (at >= end || bpf_probe_read_user(&first, sizeof(first), (void *)at))
		return 0;
	size = 1U << (first >> 6);
	asm volatile("" : "+r"(size)); /* else the compiler checks another register than the one that it reads by */
	if (size > sizeof(*bytes) || size > end - at || bpf_probe_read_user(bytes, size, (void *)at))
		return 0;
	*value = bpf_be64_to_cpu(*bytes) << 2 >> 2 >> (64 - 8 * size);
	return at + size;
}

/* Where the first parameter of this kind lies, among those between these addresses: in the upper bits, and in the lower 16 its
 * length; 0 where there is none, and PARAMETERS_DAMAGED where that can't be told. Not static: verified once. */
__noinline __u64 find_parameter(__u64 at, __u64 end, __u32 wanted)
{
	for (__u32 number = 0; number < MOST_PARAMETERS; number++) {
		__u64 kind = 0, length = 0;

		if (at == end)
			return 0;
		at = read_integer(at, end, &kind);
		at = at ? read_integer(at, end, &length) : 0;
		if (!at || length > end - at)
			return PARAMETERS_DAMAGED;
		if (kind == wanted)
			return at << 16 | (length & 0xffff);
		at += length;
	}
	return PARAMETERS_DAMAGED;
}

/* The server's own ID, in parameters that lie between these addresses. */
static __noinline bool read_own_id(__u64 at, __u64 end, struct ssll_quic_id *id)
{
	__u64 found = find_parameter(at, end, QUIC_INITIAL_SOURCE_ID), length = found & 0xffff;

	if (found <= PARAMETERS_DAMAGED || !length)
		return false;
	asm volatile("" : "+r"(length)); /* as above */
	if (length > sizeof(id->bytes))
		return false;
	id->length = length;
	return !bpf_probe_read_user(id->bytes, length, (void *)(found >> 16));
}

/* Whether the server has answered its client's first packet with a Retry, as those parameters tell: a word of enum quic_retry.
 */
static __always_inline enum quic_retry find_quic_retry(__u64 at, __u64 end)
{
	__u64 found = find_parameter(at, end, QUIC_RETRY_SOURCE_ID);

	if (found == PARAMETERS_DAMAGED)
		return QUIC_RETRY_UNKNOWN;
	return found ? QUIC_RETRY_SENT : QUIC_RETRY_NOT_SENT;
}

/* Where the content of an extension lies, in a message of TLS whose extensions are between these addresses: in the upper bits,
 * and in the lower 16 its length; 0 where there is none. Addresses have 48 bits. */
static __noinline __u64 find_quic_parameters(__u64 at, __u64 end)
{
	struct {
		__u16 kind;
		__u16 length;
	} head = {};

	for (__u32 number = 0; number < MOST_EXTENSIONS; number++) {
		if (at + sizeof(head) > end || bpf_probe_read_user(&head, sizeof(head), (void *)at))
			return 0;
		at += sizeof(head);
		if (bpf_ntohs(head.length) > end - at)
			return 0;
		if (head.kind == bpf_htons(TLS_QUIC_PARAMETERS))
			return at << 16 | bpf_ntohs(head.length);
		at += bpf_ntohs(head.length);
	}
	return 0;
}

/* The same, of a message that lies there; 0 where it isn't EncryptedExtensions, and whole. */
static __always_inline __u64 parameters_in_message(__u64 at, __u64 length)
{
	struct {
		__u8 kind;
		__u8 length[3];
		__u8 extensions[2];
	} head = {};

	if (length < sizeof(head) || length > MOST_MESSAGE_BYTES || at >> 48 || bpf_probe_read_user(&head, 1, (void *)at) ||
	        head.kind != TLS_ENCRYPTED_EXTENSIONS || bpf_probe_read_user(&head, sizeof(head), (void *)at))
		return 0;
	if (length != 4ULL + (head.length[0] << 16 | head.length[1] << 8 | head.length[2]) ||
	        length != sizeof(head) + (head.extensions[0] << 8 | head.extensions[1]))
		return 0;
	return find_quic_parameters(at + sizeof(head), at + length);
}

/* Whether the first byte of a packet, which has a long header, and its version say that it is one of a connection's first ones:
 * Initial or Handshake. */
static __always_inline bool is_of_handshake(__u8 first, __u32 version)
{
	__u8 kind = first >> 4 & 3;

	return first & 0x80 && ((version == QUIC_V1 && (kind == 0 || kind == 2)) || (version == QUIC_V2 && kind & 1));
}

/* Reads the sender's ID out of the header at `at`, if it ends before `end`. */
static __always_inline bool read_source_id(__u64 at, __u64 end, struct ssll_quic_id *id)
{
	__u8 head[6] = {}; /* the first byte, the version, and how long the receiver's ID is */
	__u32 version, length;

	if (at + sizeof(head) > end || bpf_probe_read_kernel(head, sizeof(head), (void *)at))
		return false;
	__builtin_memcpy(&version, head + 1, sizeof(version));
	if (!is_of_handshake(head[0], bpf_ntohl(version)) || head[5] > sizeof(id->bytes))
		return false;
	at += sizeof(head) + head[5];
	if (at >= end || bpf_probe_read_kernel(&id->length, sizeof(id->length), (void *)at))
		return false;
	at++;
	length = id->length;
	if (!length || at + length > end)
		return false;
	asm volatile("" : "+r"(length)); /* else the compiler checks another register than the one that it reads by */
	if (length > sizeof(id->bytes))
		return false;
	return !bpf_probe_read_kernel(id->bytes, length, (void *)at);
}

#endif
