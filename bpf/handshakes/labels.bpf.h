/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a handshake is labelled by, read from its SSL along the ways that the library's own accessors take. */
#ifndef LABELS_BPF_H
#define LABELS_BPF_H

#include "handshakes/running.bpf.h"

enum {
	OPENSSL_TLS1_3 = 0x0304,
	OPENSSL_VERIFY_PEER = 1,
	UNKNOWN_STATE = 0xffff,
	TLS_HANDSHAKE_FAILURE = 40,
	TLS_MISSING_EXTENSION = 109,
	TLS_CERTIFICATE_REQUIRED = 116,
};

/* Whether the value at the end of the path could be read. Not static: verified once, whatever calls it. */
__noinline int read_path(__u64 ssl, const struct ssll_path *path, __u64 *value)
{
	__u64 at = ssl;
	__u32 size;

	if (!path || !value || !ssl || path->length < 1 || path->length > SSLL_PATH_LENGTH)
		return 0;
	for (__u32 step = 0; step + 1 < SSLL_PATH_LENGTH; step++) {
		__u64 next = 0;

		if (step + 1 >= path->length)
			break;
		if (bpf_probe_read_user(&next, sizeof(next), (void *)(at + path->offsets[step])) || !next)
			return 0;
		at = next;
	}
	at += path->offsets[(path->length - 1) & (SSLL_PATH_LENGTH - 1)];
	*value = 0;
	size = path->size;
	if (size == 8)
		return !bpf_probe_read_user(value, 8, (void *)at);
	if (size == 4)
		return !bpf_probe_read_user(value, 4, (void *)at);
	if (size == 2)
		return !bpf_probe_read_user(value, 2, (void *)at);
	return size == 1 && !bpf_probe_read_user(value, 1, (void *)at);
}

static __always_inline bool read_place(__u64 ssl, const struct ssll_layout *layout, enum ssll_place_of place, __u64 *value)
{
	return read_path(ssl, &layout->paths[place], value);
}

/* The group in which this handshake has agreed on a key. A session that is resumed has that of the handshake it comes from. */
static __always_inline bool read_group(
        __u64 ssl, const struct ssll_layout *layout, const struct ssll_labels *labels, __u64 *group)
{
	__u64 agreed = 0;

	if (!read_place(ssl, layout, SSLL_PLACE_OF_DID_KEX, &agreed))
		return false;
	if (labels->version == OPENSSL_TLS1_3)
		return agreed && read_place(ssl, layout, SSLL_PLACE_OF_GROUP_TLS13, group);
	return !labels->resumed && read_place(ssl, layout, SSLL_PLACE_OF_GROUP_SESSION, group);
}

static __always_inline bool read_client_certificate(__u64 ssl, const struct ssll_layout *layout, __u8 *value)
{
	__u64 mode = 0, peer = 0;

	if (!read_place(ssl, layout, SSLL_PLACE_OF_VERIFY_MODE, &mode))
		return false;
	if (!(mode & OPENSSL_VERIFY_PEER)) {
		*value = SSLL_CLIENT_CERTIFICATE_NOT_ASKED;
		return true;
	}
	/* A session that isn't there yet holds no certificate either. */
	if (!layout->paths[SSLL_PLACE_OF_PEER_CERTIFICATE].length)
		return false;
	read_place(ssl, layout, SSLL_PLACE_OF_PEER_CERTIFICATE, &peer);
	*value = peer ? SSLL_CLIENT_CERTIFICATE_GIVEN : SSLL_CLIENT_CERTIFICATE_NOT_GIVEN;
	return true;
}

#define SSLL_KNOWN(label) (1U << SSLL_LABEL_##label)

__noinline int read_labels(__u64 ssl, const struct ssll_layout *layout, struct ssll_labels *labels)
{
	__u64 value = 0;

	if (!layout || !labels)
		return 0;
	if (read_place(ssl, layout, SSLL_PLACE_OF_VERSION, &value)) {
		labels->version = value;
		labels->known |= SSLL_KNOWN(VERSION);
	}
	if (read_place(ssl, layout, SSLL_PLACE_OF_CIPHER, &value)) {
		labels->cipher = value;
		labels->known |= SSLL_KNOWN(CIPHER);
	}
	if (read_place(ssl, layout, SSLL_PLACE_OF_RESUMED, &value)) {
		labels->resumed = value != 0;
		labels->known |= SSLL_KNOWN(RESUMED);
	}
	if (read_group(ssl, layout, labels, &value)) {
		labels->group = value;
		labels->known |= SSLL_KNOWN(GROUP);
	}
	if (read_place(ssl, layout, SSLL_PLACE_OF_SIGNATURE, &value)) {
		labels->signature = value;
		labels->known |= SSLL_KNOWN(SIGNATURE);
	}
	if (read_client_certificate(ssl, layout, &labels->client_certificate))
		labels->known |= SSLL_KNOWN(CLIENT_CERTIFICATE);
	return 0;
}

#endif
