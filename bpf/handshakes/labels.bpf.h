/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a handshake is labelled by, read from its SSL along the ways that the library's own accessors take. */
#ifndef LABELS_BPF_H
#define LABELS_BPF_H

#include "labels/paths.bpf.h"
#include "running/running.bpf.h"

enum {
	OPENSSL_OP_NO_TLS1_3 = 0x20000000,
	TLS_DHE_RSA_WITH_CHACHA20_POLY1305 = 0xccaa,
};

static __always_inline bool read_flag(__u64 ssl, const struct ssll_library *library, enum ssll_place_of place, __u64 *value)
{
	if (!read_place(ssl, library, place, value))
		return false;
	*value = *value != 0;
	return true;
}

/* The same of s2n-tls, which keeps groups with ML-KEM elsewhere than curves; and a client's curve before TLS 1.3 whatever the
 * cipher suite is: the numbers of those that don't agree on a key by a curve are below 0x100, but for one. */
static __always_inline bool read_group_of_s2n(
        __u64 ssl, const struct ssll_library *library, const struct ssll_labels *labels, __u64 *group)
{
	__u32 cipher = labels->values[SSLL_LABEL_CIPHER] & 0xffff;

	if (labels->values[SSLL_LABEL_VERSION] == OPENSSL_TLS1_3) {
		if (read_code_point(ssl, library, SSLL_PLACE_OF_GROUP_TLS13, group))
			return true;
	} else if (labels->values[SSLL_LABEL_RESUMED] || cipher < 0x100 || cipher == TLS_DHE_RSA_WITH_CHACHA20_POLY1305) {
		return false;
	}
	return read_code_point(ssl, library, SSLL_PLACE_OF_GROUP, group);
}

/* The group in which this handshake has agreed on a key. A session that is resumed has that of the handshake it comes from. */
static __always_inline bool read_group(
        __u64 ssl, const struct ssll_library *library, const struct ssll_labels *labels, __u64 *group)
{
	bool old_session = labels->values[SSLL_LABEL_RESUMED] && labels->values[SSLL_LABEL_VERSION] != OPENSSL_TLS1_3;
	__u64 agreed = 0;

	if (library->stack == SSLL_STACK_S2N)
		return read_group_of_s2n(ssl, library, labels, group);
	if (library->paths[SSLL_PLACE_OF_GROUP].length)
		return !old_session && read_code_point(ssl, library, SSLL_PLACE_OF_GROUP, group) &&
		       (*group || !has_group_zero(library));
	if (!read_place(ssl, library, SSLL_PLACE_OF_DID_KEX, &agreed))
		return false;
	if (labels->values[SSLL_LABEL_VERSION] == OPENSSL_TLS1_3)
		return agreed && read_code_point(ssl, library, SSLL_PLACE_OF_GROUP_TLS13, group);
	return !labels->values[SSLL_LABEL_RESUMED] && read_code_point(ssl, library, SSLL_PLACE_OF_GROUP_SESSION, group);
}

static __always_inline bool read_client_certificate(
        __u64 ssl, const struct ssll_library *library, const struct ssll_labels *labels, __u64 *value)
{
	__u64 mode = 0, peer = 0, credentials = 0;

	if (!tells_certificate(ssl, library) || !read_place(ssl, library, SSLL_PLACE_OF_VERIFY_MODE, &mode))
		return false;
	if (!asks_for_certificate(library, mode)) {
		*value = SSLL_CLIENT_CERTIFICATE_NOT_ASKED;
		return true;
	}
	/* A session that isn't there yet holds no certificate either. */
	if (!library->paths[SSLL_PLACE_OF_PEER_CERTIFICATE].length)
		return false;
	if (!read_place(ssl, library, SSLL_PLACE_OF_CREDENTIALS, &credentials) || are_certificates(credentials))
		read_place(ssl, library, SSLL_PLACE_OF_PEER_CERTIFICATE, &peer);
	if (!peer)
		read_place(ssl, library, SSLL_PLACE_OF_PEER_DIGEST, &peer);
	if (!peer && labels->ending != SSLL_ENDING_SUCCESS) /* one that is refused is kept nowhere */
		return false;
	*value = peer ? SSLL_CLIENT_CERTIFICATE_GIVEN : SSLL_CLIENT_CERTIFICATE_NOT_GIVEN;
	return true;
}

/* Of a handshake that has succeeded: which messages it consists of is settled then. A key that both sides have been given
 * (external PSK) is no session. */
static __always_inline bool read_resumed_by_s2n(
        __u64 ssl, const struct ssll_library *library, const struct ssll_labels *labels, __u64 *value)
{
	__u64 external = 0;

	if (labels->ending != SSLL_ENDING_SUCCESS || !read_place(ssl, library, SSLL_PLACE_OF_RESUMED, value) ||
	        !read_place(ssl, library, SSLL_PLACE_OF_CREDENTIALS, &external))
		return false;
	*value = to_resumed(library, *value) && !(external && labels->values[SSLL_LABEL_VERSION] == OPENSSL_TLS1_3);
	return true;
}

static __always_inline bool read_resumed(
        __u64 ssl, const struct ssll_library *library, const struct ssll_labels *labels, __u64 *value)
{
	bool kept = labels->values[SSLL_LABEL_VERSION] == OPENSSL_TLS1_3 || keeps_server_state(ssl, library);

	if (library->stack == SSLL_STACK_S2N)
		return read_resumed_by_s2n(ssl, library, labels, value);
	return kept && read_flag(ssl, library, SSLL_PLACE_OF_RESUMED, value);
}

static __always_inline bool read_signature(__u64 ssl, const struct ssll_library *library, __u64 *value)
{
	return read_code_point(ssl, library, SSLL_PLACE_OF_SIGNATURE, value) && (*value || !has_signature_zero(library));
}

/* One label's value; false where it isn't known. `labels` has those that come before it. */
static __always_inline bool read_label(
        __u64 ssl, const struct ssll_library *library, const struct ssll_labels *labels, enum ssll_label label, __u64 *value)
{
	switch (label) {
	case SSLL_LABEL_VERSION:
		return read_version(ssl, library, value);
	case SSLL_LABEL_CIPHER:
		return read_cipher(ssl, library, value);
	case SSLL_LABEL_RESUMED:
		return read_resumed(ssl, library, labels, value);
	case SSLL_LABEL_GROUP:
		return read_group(ssl, library, labels, value);
	case SSLL_LABEL_SIGNATURE:
		return read_signature(ssl, library, value);
	case SSLL_LABEL_CLIENT_CERTIFICATE:
		return read_client_certificate(ssl, library, labels, value);
	default:
		return false;
	}
}

/* Whether a session id that the client sent is known to be that of a session. One that offers TLS 1.3 makes one up for the sake
 * of middleboxes, and where this side doesn't allow that version it isn't known whether it did. */
static __always_inline bool means_session(__u64 ssl, const struct ssll_library *library, const struct ssll_labels *labels)
{
	__u64 most = 0, options = 0;

	if (labels->values[SSLL_LABEL_VERSION] == OPENSSL_TLS1_3)
		return true;
	return read_place(ssl, library, SSLL_PLACE_OF_MAX_VERSION, &most) &&
	       read_place(ssl, library, SSLL_PLACE_OF_OPTIONS, &options) && (!most || most == OPENSSL_TLS1_3) &&
	       !(options & OPENSSL_OP_NO_TLS1_3);
}

static __always_inline void clear_label(struct ssll_labels *labels, enum ssll_label label)
{
	labels->values[label] = 0;
	labels->known &= ~(1U << label);
}

__noinline int read_labels(__u64 ssl, const struct ssll_library *library, struct ssll_labels *labels)
{
	__u64 value = 0;

	if (!library || !labels)
		return 0;
#pragma unroll
	for (__u32 label = 0; label < SSLL_LABEL_ROLE; label++) {
		if (read_label(ssl, library, labels, label, &value))
			set_label(labels, label, value);
	}
	return 0;
}

#endif
