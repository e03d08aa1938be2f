/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Values in a library's structures, read along the paths in its record, and labels that are set. */
#ifndef PATHS_BPF_H
#define PATHS_BPF_H

#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#include "handshake.h"
#include "common/maps.bpf.h"
#include "stacks/stacks.bpf.h"

enum {
	OPENSSL_TLS1_3 = 0x0304,
};

static __always_inline struct ssll_library *library_of(__u32 index)
{
	return bpf_map_lookup_elem(&libraries, &index);
}

static __always_inline bool read_value(__u64 at, __u32 size, __u64 *value)
{
	if (size == 8)
		return !bpf_probe_read_user(value, 8, (void *)at);
	if (size == 4)
		return !bpf_probe_read_user(value, 4, (void *)at);
	if (size == 2)
		return !bpf_probe_read_user(value, 2, (void *)at);
	return size == 1 && !bpf_probe_read_user(value, 1, (void *)at);
}

/* Whether the value at the end of the path could be read. Not static: verified once, whatever calls it. */
__noinline int read_path(__u64 ssl, const struct ssll_path *path, __u64 *value)
{
	__u64 at = ssl;

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
	if (!path->size) {
		*value = at;
		return 1;
	}
	if (!read_value(at, path->size, value))
		return 0;
	if (path->bits)
		*value &= path->bits;
	return 1;
}

static __always_inline bool read_place(__u64 ssl, const struct ssll_library *library, enum ssll_place_of place, __u64 *value)
{
	return read_path(ssl, &library->paths[place], value);
}

/* A code point of TLS, which has 16 bits wherever the library keeps it. */
static __always_inline bool read_code_point(
        __u64 ssl, const struct ssll_library *library, enum ssll_place_of place, __u64 *value)
{
	if (!read_place(ssl, library, place, value))
		return false;
	*value = (__u16)*value;
	return true;
}

static __always_inline bool read_cipher(__u64 ssl, const struct ssll_library *library, __u64 *value)
{
	if (!read_place(ssl, library, SSLL_PLACE_OF_CIPHER, value))
		return false;
	return to_cipher(library, value);
}

static __always_inline bool read_version(__u64 ssl, const struct ssll_library *library, __u64 *value)
{
	if (!has_agreed_on_version(ssl, library) || (chooses_version_with_cipher(library) && !read_cipher(ssl, library, value)))
		return false;
	return read_code_point(ssl, library, SSLL_PLACE_OF_VERSION, value) && to_tls_version(library, value);
}

static __always_inline bool is_known(const struct ssll_labels *labels, enum ssll_label label)
{
	return labels->known >> label & 1;
}

static __always_inline void set_label(struct ssll_labels *labels, enum ssll_label label, __u32 value)
{
	labels->values[label] = value;
	labels->known |= 1U << label;
}

#endif
