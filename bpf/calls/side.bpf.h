/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which side of its connection an SSL is on: read from it once, then remembered until it is freed. */
#ifndef SIDE_BPF_H
#define SIDE_BPF_H

#include "common/maps.bpf.h"
#include "stacks/outcome.bpf.h"

struct {
	SSLL_MAP(sides);
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SSLL_SIDES);
	__type(key, __u32);
	__type(value, __u64);
} sides SEC(".maps");

/* The word that may remember the SSL, and in *tag what it then holds but for the server's bit. NULL where none can. */
static __always_inline __u64 *side_word(__u64 ssl, __u32 tgid, __u64 *tag)
{
	__u32 number;

	if (ssl >> 48 || ssl & 15)
		return NULL;
	*tag = 1ULL << 63 | (__u64)tgid << SSLL_SIDE_TGID | ssl >> (SSLL_SIDE_BITS + 4) << SSLL_SIDE_SSL;
	number = (ssl >> 4 ^ *tag * 0x9e3779b97f4a7c15ULL >> (64 - SSLL_SIDE_BITS)) & (SSLL_SIDES - 1);
	return bpf_map_lookup_elem(&sides, &number);
}

/*
 * Whether the SSL is on the side that is asked for; one that can't be read counts. `read_again`: after a call
 * that may have decided the side.
 */
static __always_inline bool is_on_wanted_side(__u64 ssl, __u32 tgid, bool read_again, const struct ssll_library *library)
{
	const __u64 server_bit = 1ULL << SSLL_SIDE_SERVER;
	__u64 tag = 0, *word = NULL;
	bool server = false;

	if (config.role == SSLL_ANY)
		return true;
	if (library->remember == 1)
		word = side_word(ssl, tgid, &tag);
	if (word && !read_again && (*word & ~server_bit) == tag)
		return is_wanted_side(*word & server_bit);
	if (!is_connection(ssl, library) || !read_server(ssl, library, &server))
		return true;
	if (word)
		*word = tag | (server ? server_bit : 0);
	return is_wanted_side(server);
}

/* The SSL is about to be freed: its address may come back as another one. */
static __always_inline void forget_side(__u64 ssl, __u32 tgid)
{
	__u64 tag = 0, *word = side_word(ssl, tgid, &tag);

	if (word && (*word & ~(1ULL << SSLL_SIDE_SERVER)) == tag)
		*word = 0;
}

#endif
