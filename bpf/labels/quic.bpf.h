/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whether a handshake goes over QUIC: by what its library reads from, by who takes its messages, or by the protocol that its
 * sides have agreed on, where nothing else carries that. And whether it is without TCP, which shows before its first call. */
#ifndef QUIC_BPF_H
#define QUIC_BPF_H

#include "labels/who.bpf.h"

enum {
	OPENSSL_BIO_TYPE_NULL = 0x406,
};

/* Whether its program takes the library's messages by functions of its own, which is for QUIC alone. */
static __always_inline bool has_quic_functions(__u64 ssl, const struct ssll_library *library)
{
	__u64 functions = 0;

	return read_place(ssl, library, SSLL_PLACE_OF_QUIC_FUNCTIONS, &functions) && functions;
}

/* Since OpenSSL 3.5 a handshake over QUIC, be it OpenSSL's own or a program's, has a BIO that gives nothing: nobody could make
 * another one by that. */
static __always_inline bool reads_from_nothing(__u64 ssl, const struct ssll_library *library)
{
	__u64 type = 0;

	return read_place(ssl, library, SSLL_PLACE_OF_BIO_TYPE, &type) && type == OPENSSL_BIO_TYPE_NULL;
}

/* The type of the BIO that the library writes to, if that is known. */
static __always_inline bool read_written_type(__u64 ssl, const struct ssll_library *library, __u32 *type)
{
	const struct ssll_path *path = &library->paths[SSLL_PLACE_OF_BIO_TYPE];
	__u64 bio = 0, method = 0;

	if (path->length != 3 || library->wbio < 0)
		return false;
	if (bpf_probe_read_user(&bio, sizeof(bio), (void *)(ssl + library->wbio)) ||
	        bpf_probe_read_user(&method, sizeof(method), (void *)(bio + path->offsets[1])))
		return false;
	return read_int(method, path->offsets[2], type);
}

/* Whether the library has neither a BIO to read from nor one to write to. */
static __always_inline bool has_no_bio(__u64 ssl, const struct ssll_library *library)
{
	__u64 reads = 0, writes = 0;

	if (library->rbio < 0 || library->wbio < 0)
		return false;
	return !bpf_probe_read_user(&reads, sizeof(reads), (void *)(ssl + library->rbio)) && !reads &&
	       !bpf_probe_read_user(&writes, sizeof(writes), (void *)(ssl + library->wbio)) && !writes;
}

/* Whether it is given the descriptor of a socket of UDP, be it to read from or not. */
static __always_inline bool has_udp_socket(__u64 ssl, const struct ssll_library *library)
{
	struct sock *sock = NULL;
	__u32 descriptor;

	if (read_descriptor(ssl, library, &descriptor))
		sock = find_socket(descriptor);
	return sock && is_udp(sock);
}

/*
 * Whether a handshake's own messages can't go out over TCP, so that nothing that came over it is handed to its library. To be
 * asked before its first call. Whoever makes handshakes over QUIC takes the messages by functions that the library has a field
 * for; where that isn't known, BoringSSL, AWS-LC and quictls have no BIO, or the one that a server gives to all of its
 * connections, with its socket of UDP. OpenSSL since 3.2, and nginx and haproxy where it has no interface for QUIC, have
 * records written to a BIO that drops them; from within the first call on another one that buffers may lie before that.
 */
__noinline int is_without_tcp(__u64 ssl, const struct ssll_library *library)
{
	__u32 type = 0;

	if (!library)
		return 0;
	if (read_written_type(ssl, library, &type) && type == OPENSSL_BIO_TYPE_NULL)
		return 1;
	return has_quic_functions(ssl, library) || has_no_bio(ssl, library) || has_udp_socket(ssl, library);
}

/* Whether the library shows of each of its handshakes that is over QUIC that it is without TCP. */
static __always_inline bool tells_without_tcp(const struct ssll_library *library)
{
	if (library->paths[SSLL_PLACE_OF_QUIC_FUNCTIONS].length)
		return true;
	return library->paths[SSLL_PLACE_OF_BIO_TYPE].length == 3 && library->rbio >= 0 && library->wbio >= 0;
}

/* HTTP/3 and its drafts, "h3-29", and DNS over QUIC: RFC 9114, 3.1 and RFC 9250, 4.1.1. */
static __always_inline bool is_protocol_of_quic(const char *name, __u64 length)
{
	if (name[0] == 'h' && name[1] == '3')
		return length == 2 || (length > 2 && name[2] == '-');
	return length == 3 && name[0] == 'd' && name[1] == 'o' && name[2] == 'q';
}

/* Not static: verified once. What has agreed on no protocol yet may not be known to. */
__noinline int is_of_quic(__u64 ssl, const struct ssll_library *library)
{
	__u64 protocol = 0, length = 0;
	char name[3] = {};

	if (!library)
		return 0;
	if (reads_from_nothing(ssl, library) || (shakes_hands_by_functions(library) && has_quic_functions(ssl, library)))
		return 1;
	if (!read_place(ssl, library, SSLL_PLACE_OF_ALPN, &protocol) ||
	        !read_place(ssl, library, SSLL_PLACE_OF_ALPN_LENGTH, &length) || length < 2 || length > SSLL_TEXT_LENGTH)
		return 0;
	if (bpf_probe_read_user(name, length == 2 ? 2 : sizeof(name), (void *)protocol))
		return 0;
	return is_protocol_of_quic(name, length);
}

/*
 * Whether a connection under way of a server's over QUIC is one of those that quiche makes only to look into a ClientHello, and
 * gives up: it has neither transport parameters to send nor a function that chooses the protocol, and BoringSSL completes no
 * handshake over QUIC without them. Not static: verified once.
 */
__noinline int is_inspection(__u64 ssl, const struct ssll_library *library)
{
	__u64 value = 0;

	if (!library)
		return 0;
	if (!read_place(ssl, library, SSLL_PLACE_OF_ALPN_FUNCTION, &value) || value)
		return 0;
	if (!has_quic_functions(ssl, library) || !read_place(ssl, library, SSLL_PLACE_OF_IN_INIT, &value))
		return 0;
	return read_place(value, library, SSLL_PLACE_OF_QUIC_PARAMETERS_LENGTH, &value) && !value;
}

#endif
