/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whether a handshake goes over QUIC: by what its library reads from, or by the protocol that its sides have agreed on, where
 * nothing else carries that. */
#ifndef QUIC_BPF_H
#define QUIC_BPF_H

#include "labels/who.bpf.h"

enum {
	OPENSSL_BIO_TYPE_NULL = 0x406,
};

/* Since OpenSSL 3.5 a handshake over QUIC, be it OpenSSL's own or a program's, has a BIO that gives nothing: nobody could make
 * another one by that. */
static __always_inline bool reads_from_nothing(__u64 ssl, const struct ssll_library *library)
{
	__u64 type = 0;

	return read_place(ssl, library, SSLL_PLACE_OF_BIO_TYPE, &type) && type == OPENSSL_BIO_TYPE_NULL;
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
	if (reads_from_nothing(ssl, library))
		return 1;
	if (!read_place(ssl, library, SSLL_PLACE_OF_ALPN, &protocol) ||
	        !read_place(ssl, library, SSLL_PLACE_OF_ALPN_LENGTH, &length) || length < 2 || length > SSLL_TEXT_LENGTH)
		return 0;
	if (bpf_probe_read_user(name, length == 2 ? 2 : sizeof(name), (void *)protocol))
		return 0;
	return is_protocol_of_quic(name, length);
}

#endif
