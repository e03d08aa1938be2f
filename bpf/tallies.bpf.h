/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How many handshakes failed of which cause, used which key, had which label. */
#ifndef TALLIES_BPF_H
#define TALLIES_BPF_H

#include "labels.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SSLL_CAUSES);
	__type(key, struct ssll_cause_key);
	__type(value, struct ssll_tally);
} causes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SSLL_KEYS);
	__type(key, struct ssll_key_use);
	__type(value, struct ssll_tally);
} keys SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SSLL_MIX);
	__type(key, struct ssll_mix_key);
	__type(value, __u64);
} mix SEC(".maps");

const struct ssll_tally blank_tally = {};

/* NULL where a map had no room for it. */
static __always_inline void add_tally(struct ssll_tally *tally, __u64 duration_ns)
{
	count_at(tally ? &tally->count : NULL);
	if (tally)
		__sync_fetch_and_add(&tally->total_ns, duration_ns);
}

static __always_inline void add_cause(const struct ssll_cause_key *cause, __u64 duration_ns)
{
	add_tally(FOUND_OR_FAIRLY_MADE(&causes, cause, &blank_tally, causes, MOST_OF(SSLL_CAUSES)), duration_ns);
}

static __always_inline void add_mix(__u32 label, __u32 library, __u64 value)
{
	struct ssll_mix_key key = {.label = label, .library = library, .value = value};
	const __u64 none = 0;

	count_at(FOUND_OR_FAIRLY_MADE(&mix, &key, &none, mix, MOST_OF(SSLL_MIX)));
}

__noinline int add_labels(const struct ssll_labels *labels)
{
	__u32 known;

	if (!labels)
		return 0;
	known = labels->known;
	if (known & SSLL_KNOWN(VERSION))
		add_mix(SSLL_LABEL_VERSION, 0, labels->version);
	if (known & SSLL_KNOWN(CIPHER))
		add_mix(SSLL_LABEL_CIPHER, labels->library, labels->cipher);
	if (known & SSLL_KNOWN(RESUMED))
		add_mix(SSLL_LABEL_RESUMED, 0, labels->resumed);
	if (known & SSLL_KNOWN(GROUP))
		add_mix(SSLL_LABEL_GROUP, labels->library, labels->group);
	if (known & SSLL_KNOWN(SIGNATURE))
		add_mix(SSLL_LABEL_SIGNATURE, labels->library, labels->signature);
	if (known & SSLL_KNOWN(CLIENT_CERTIFICATE))
		add_mix(SSLL_LABEL_CLIENT_CERTIFICATE, 0, labels->client_certificate);
	return 0;
}

static __always_inline void add_key(const struct ssll_handshake *handshake, const struct ssll_labels *labels)
{
	struct ssll_key_use key = {
	        .bytes = handshake->key_bytes,
	        .operation = handshake->key_operation,
	        .library = labels->library,
	};

	if (!handshake->key_operation)
		return;
	if (handshake->key_operation == SSLL_KEY_OPERATION_SIGN)
		key.signature = labels->signature;
	add_tally(FOUND_OR_FAIRLY_MADE(&keys, &key, &blank_tally, keys, MOST_OF(SSLL_KEYS)),
	        handshake->parts[SSLL_PART_PRIVATE_KEY]);
}

#endif
