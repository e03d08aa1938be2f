/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who shook hands: the server's name, the protocol, the listener's port and the peer's network. Nothing of it is read unless it
 * is asked for, and of a peer's address no more is kept than its network.
 */
#ifndef WHO_BPF_H
#define WHO_BPF_H

#include "labels/paths.bpf.h"
#include "labels/sockets.bpf.h"
#include "labels/texts.bpf.h"

enum {
	OPENSSL_BIO_TYPE_SOCKET = 0x505,
	MOST_DESCRIPTORS = 1 << 20,
};

const volatile struct ssll_who_config who_config SEC(".rodata.who_config") = {};

static __always_inline bool is_asked_for(enum ssll_label label)
{
	return who_config.labels >> label & 1;
}

/* What is beyond the bound on texts counts under "other"; what couldn't be read isn't known. */
static __always_inline void set_text(struct ssll_labels *labels, enum ssll_label label, int number)
{
	if (number > 0)
		set_label(labels, label, number);
	else if (!number)
		labels->known |= 1U << SSLL_LABEL_OTHER;
}

/* Whether the ClientHello has been dealt with: before, what isn't there may still come. */
static __always_inline bool has_read_hello(const struct ssll_labels *labels)
{
	return labels->ending == SSLL_ENDING_SUCCESS || is_known(labels, SSLL_LABEL_CIPHER);
}

/* The same of a connection that keeps it in a field of its own, with its length. */
static __always_inline void read_go_server_name(__u64 ssl, const struct ssll_library *library, struct ssll_labels *labels)
{
	__u64 name = 0, length = 0;

	if (!read_place(ssl, library, SSLL_PLACE_OF_SERVER_NAME, &name) ||
	        !read_place(ssl, library, SSLL_PLACE_OF_SERVER_NAME_LENGTH, &length))
		return;
	if (name && length)
		set_text(labels, SSLL_LABEL_SNI, number_of_bytes(name, length, SSLL_TEXT_KIND_SERVER_NAME));
	else if (labels->ending == SSLL_ENDING_SUCCESS)
		set_label(labels, SSLL_LABEL_SNI, 0);
}

/* The same where it ends in a zero byte. A client's connection has the name that it asks for elsewhere. */
static __always_inline void read_name_in_one_place(__u64 ssl, const struct ssll_library *library, struct ssll_labels *labels)
{
	bool server = false;
	__u64 name = 0;

	if (!read_side(ssl, library, &server) || !server || !read_place(ssl, library, SSLL_PLACE_OF_SERVER_NAME, &name))
		return;
	if (name)
		set_text(labels, SSLL_LABEL_SNI, number_of_string(name, SSLL_TEXT_KIND_SERVER_NAME));
	else if (has_read_hello(labels))
		set_label(labels, SSLL_LABEL_SNI, 0);
}

/*
 * The name that the client asked for, where SSL_get_servername looks for it. In a session that is resumed before TLS 1.3 it is
 * there only if the application has accepted it, so that what isn't there isn't known.
 */
static __always_inline void read_server_name(__u64 ssl, const struct ssll_library *library, struct ssll_labels *labels)
{
	bool in_session = labels->values[SSLL_LABEL_RESUMED] && labels->values[SSLL_LABEL_VERSION] != OPENSSL_TLS1_3;
	__u64 name = 0;

	if (keeps_server_name(library)) {
		read_go_server_name(ssl, library, labels);
		return;
	}
	if (keeps_name_in_one_place(library)) {
		read_name_in_one_place(ssl, library, labels);
		return;
	}
	if (!library->paths[SSLL_PLACE_OF_SERVER_NAME_SESSION].length || !is_known(labels, SSLL_LABEL_RESUMED) ||
	        !is_known(labels, SSLL_LABEL_VERSION))
		return;
	if (in_session)
		read_place(ssl, library, SSLL_PLACE_OF_SERVER_NAME_SESSION, &name);
	if (!name && !read_place(ssl, library, SSLL_PLACE_OF_SERVER_NAME, &name))
		return;
	if (name)
		set_text(labels, SSLL_LABEL_SNI, number_of_string(name, SSLL_TEXT_KIND_SERVER_NAME));
	else if (!in_session && has_read_hello(labels))
		set_label(labels, SSLL_LABEL_SNI, 0);
}

/* Whether the client or the server has had nothing to say in an extension, where the library keeps it behind a pointer. */
static __always_inline bool lacks_extension(__u64 ssl, const struct ssll_library *library, enum ssll_place_of place)
{
	const struct ssll_path *path = &library->paths[place];
	__u64 said = 0;

	return keeps_extensions(library) && path->length > 1 &&
	       !bpf_probe_read_user(&said, sizeof(said), (void *)(ssl + path->offsets[0])) && !said;
}

/* The name of so many bytes that the client asked for, which is there whether a session is resumed or not. */
static __always_inline void read_counted_name(__u64 ssl, const struct ssll_library *library, struct ssll_labels *labels)
{
	__u64 name = 0, length = 0;

	if (!lacks_extension(ssl, library, SSLL_PLACE_OF_SERVER_NAME) &&
	        (!read_place(ssl, library, SSLL_PLACE_OF_SERVER_NAME, &name) ||
	                !read_place(ssl, library, SSLL_PLACE_OF_SERVER_NAME_LENGTH, &length)))
		return;
	length = bpf_ntohs((__u16)length);
	if (length)
		set_text(labels, SSLL_LABEL_SNI, number_of_bytes(name, length, SSLL_TEXT_KIND_SERVER_NAME));
	else if (has_read_hello(labels))
		set_label(labels, SSLL_LABEL_SNI, 0);
}

/* The protocol that was agreed on, a text that ends in a zero byte. */
static __always_inline void read_ended_protocol(__u64 ssl, const struct ssll_library *library, struct ssll_labels *labels)
{
	__u64 protocol = 0;

	if (!read_place(ssl, library, SSLL_PLACE_OF_ALPN, &protocol))
		return;
	if (protocol)
		set_text(labels, SSLL_LABEL_ALPN, number_of_string(protocol, SSLL_TEXT_KIND_PROTOCOL));
	else if (has_read_hello(labels))
		set_label(labels, SSLL_LABEL_ALPN, 0);
}

static __always_inline void read_protocol(__u64 ssl, const struct ssll_library *library, struct ssll_labels *labels)
{
	__u64 protocol = 0, length = 0;

	if (ends_protocol_in_zero(library)) {
		read_ended_protocol(ssl, library, labels);
		return;
	}
	if (!lacks_extension(ssl, library, SSLL_PLACE_OF_ALPN) &&
	        (!read_place(ssl, library, SSLL_PLACE_OF_ALPN, &protocol) ||
	                !read_place(ssl, library, SSLL_PLACE_OF_ALPN_LENGTH, &length)))
		return;
	if (protocol && length)
		set_text(labels, SSLL_LABEL_ALPN, number_of_bytes(protocol, length, SSLL_TEXT_KIND_PROTOCOL));
	else if (has_read_hello(labels))
		set_label(labels, SSLL_LABEL_ALPN, 0);
}

/* A text within the connection; where it is empty, there is none once the ClientHello has been dealt with. */
static __always_inline void read_text_inside(__u64 ssl, const struct ssll_library *library, enum ssll_place_of place,
        enum ssll_label label, enum ssll_text_kind kind, struct ssll_labels *labels)
{
	__u64 text = 0;
	__u8 first = 0;

	if (!read_place(ssl, library, place, &text) || bpf_probe_read_user(&first, sizeof(first), (void *)text))
		return;
	if (first)
		set_text(labels, label, number_of_string(text, kind));
	else if (has_read_hello(labels))
		set_label(labels, label, 0);
}

static __always_inline void read_texts_inside(__u64 ssl, const struct ssll_library *library, struct ssll_labels *labels)
{
	if (is_asked_for(SSLL_LABEL_SNI))
		read_text_inside(ssl, library, SSLL_PLACE_OF_SERVER_NAME, SSLL_LABEL_SNI, SSLL_TEXT_KIND_SERVER_NAME, labels);
	if (is_asked_for(SSLL_LABEL_ALPN))
		read_text_inside(ssl, library, SSLL_PLACE_OF_ALPN, SSLL_LABEL_ALPN, SSLL_TEXT_KIND_PROTOCOL, labels);
}

/* The descriptor that the library reads from; false for a BIO that isn't OpenSSL's own for sockets, or a transport of the
 * application's. */
static __always_inline bool read_descriptor(__u64 ssl, const struct ssll_library *library, __u32 *descriptor)
{
	__u64 type = 0, number = 0;

	ssl = transport_of(ssl, library);
	if (!ssl)
		return false;
	/* Of s2n-tls only a bit says that what it reads from is a descriptor, and not memory of the application's. */
	if (library->stack == SSLL_STACK_S2N && (!read_place(ssl, library, SSLL_PLACE_OF_BIO_TYPE, &type) || !type))
		return false;
	if (read_place(ssl, library, SSLL_PLACE_OF_DESCRIPTOR, &number)) {
		*descriptor = number;
		return number < MOST_DESCRIPTORS;
	}
	if (!read_place(ssl, library, SSLL_PLACE_OF_BIO_TYPE, &type) || type != OPENSSL_BIO_TYPE_SOCKET ||
	        !read_place(ssl, library, SSLL_PLACE_OF_BIO_DESCRIPTOR, &number))
		return false;
	*descriptor = number;
	return true;
}

/* The first `size` bytes of an address, of which the first `prefix` bits are kept. */
static __always_inline void copy_network(__u8 *network, const __u8 *address, __u32 size, __u32 prefix)
{
#pragma unroll
	for (__u32 i = 0; i < size; i++) {
		__u32 whole = 8 * (i + 1);

		network[i] = prefix >= whole ? address[i] : prefix + 8 > whole ? address[i] & 0xff << (whole - prefix) : 0;
	}
}

/* The number of the peer's network; as number_of_string(), -1 where there is no peer. */
__noinline int number_of_network(const struct ends *ends)
{
	struct ssll_text text = {.kind = SSLL_TEXT_KIND_LOCAL};

	if (!ends)
		return -1;
	if (ends->family == LOCAL_SOCKET)
		return number_of_text(&text);
	if (!ends->peer_port)
		return -1;
	if (ends->family == IPV4_SOCKET) {
		text.kind = SSLL_TEXT_KIND_IPV4;
		text.length = who_config.prefix4;
		copy_network(text.bytes, ends->peer, 4, who_config.prefix4);
	} else {
		text.kind = SSLL_TEXT_KIND_IPV6;
		text.length = who_config.prefix6;
		copy_network(text.bytes, ends->peer, 16, who_config.prefix6);
	}
	return number_of_text(&text);
}

/*
 * What the socket tells that the library reads from; where it shows none, the one at the kernel's address `own`, unless that is
 * 0. The port is the listener's: this side's on a server, the peer's on a client; 0 where sockets of its family have none.
 */
__noinline int read_socket(
        __u64 ssl, const struct ssll_library *library, bool server, __u64 own, struct ssll_endpoint *endpoint)
{
	struct ends ends = {};
	struct sock *sock;
	__u32 descriptor;
	int number;

	if (!library || !endpoint)
		return 0;
	sock = read_descriptor(ssl, library, &descriptor) ? find_socket(descriptor) : (struct sock *)own;
	if (!sock || !read_ends(sock, &ends))
		return 0;
	/* Without a connection the number isn't that of what the BIO reads from. */
	if (ends.family != LOCAL_SOCKET && !ends.peer_port)
		return 0;
	if (is_asked_for(SSLL_LABEL_PORT)) {
		endpoint->port = server ? ends.port : ends.peer_port;
		if (endpoint->port || ends.family == LOCAL_SOCKET)
			endpoint->known |= 1U << SSLL_LABEL_PORT;
	}
	if (!is_asked_for(SSLL_LABEL_PEER))
		return 0;
	number = number_of_network(&ends);
	endpoint->peer = number > 0 ? number : 0;
	endpoint->known |= number > 0 ? 1U << SSLL_LABEL_PEER : number ? 0 : 1U << SSLL_LABEL_OTHER;
	return 0;
}

static __always_inline bool is_socket_asked_for(void)
{
	return is_asked_for(SSLL_LABEL_PORT) || is_asked_for(SSLL_LABEL_PEER);
}

static __always_inline void set_endpoint(struct ssll_labels *labels, const struct ssll_endpoint *endpoint)
{
	labels->known |= endpoint->known;
	labels->values[SSLL_LABEL_PORT] = endpoint->port;
	labels->values[SSLL_LABEL_PEER] = endpoint->peer;
}

/* Where no other labels are read: those that the following depends on. */
static __always_inline void read_bases(__u64 ssl, const struct ssll_library *library, struct ssll_labels *labels)
{
	__u64 value = 0;

	if (read_version(ssl, library, &value))
		set_label(labels, SSLL_LABEL_VERSION, value);
	if (read_cipher(ssl, library, &value))
		set_label(labels, SSLL_LABEL_CIPHER, value);
	if (read_place(ssl, library, SSLL_PLACE_OF_RESUMED, &value))
		set_label(labels, SSLL_LABEL_RESUMED, to_resumed(library, value));
}

/* What the SSL itself tells. `labels` has what comes before. */
__noinline int read_names(__u64 ssl, const struct ssll_library *library, struct ssll_labels *labels)
{
	if (!library || !labels)
		return 0;
	if (keeps_texts_inside(library)) {
		read_texts_inside(ssl, library, labels);
		return 0;
	}
	if (is_asked_for(SSLL_LABEL_SNI))
		keeps_extensions(library) ? read_counted_name(ssl, library, labels) : read_server_name(ssl, library, labels);
	if (is_asked_for(SSLL_LABEL_ALPN))
		read_protocol(ssl, library, labels);
	return 0;
}

#endif
