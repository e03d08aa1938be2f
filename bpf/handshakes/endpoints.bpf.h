/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who shook hands, of a handshake that ends. Its socket is looked at when its first call comes back, as by the time that its
 * SSL is freed the descriptor may be another connection's.
 */
#ifndef ENDPOINTS_BPF_H
#define ENDPOINTS_BPF_H

#include "handshakes/text_share.bpf.h"
#include "labels/who.bpf.h"
#include "running/running.bpf.h"

/* As many as handshakes in flight, where they are asked for. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct ssll_handshake_key);
	__type(value, struct ssll_endpoint);
} endpoints SEC(".maps");

static __always_inline struct ssll_handshake_key key_of(__u64 ssl)
{
	struct ssll_handshake_key key = {.ssl = ssl, .tgid = this_process()};

	return key;
}

/*
 * The kernel's address of the socket from which the calls of this handshake have read, as long as it is the handshake's:
 * whoever calls is in such a call. 0 of one that an application reads for it, as which that is is only inferred; nor is it
 * asked for of Go, whose connections show theirs.
 */
static __always_inline __u64 own_socket(const struct ssll_handshake *handshake)
{
	return handshake->flags & SSLL_FLAG_FED ? 0 : handshake->socket;
}

static __always_inline __u64 shown_by_reads(const struct ssll_handshake *handshake)
{
	return handshake->flags & SSLL_FLAG_GOROUTINE ? 0 : own_socket(handshake);
}

/* What the socket of a handshake that goes on tells, for when it ends: once a call of it has come back that has one. `own`: as
 * for read_socket(). */
static __always_inline void keep_endpoint(__u64 ssl, const struct ssll_library *library, bool server, __u64 own)
{
	struct ssll_handshake_key key = key_of(ssl);
	struct ssll_endpoint endpoint = {};

	if (!is_socket_asked_for() || bpf_map_lookup_elem(&endpoints, &key))
		return;
	read_socket(ssl, library, server, own, &endpoint);
	if (endpoint.known)
		bpf_map_update_elem(&endpoints, &key, &endpoint, BPF_ANY);
}

static __always_inline void forget_endpoint(__u64 ssl)
{
	struct ssll_handshake_key key = key_of(ssl);

	if (is_socket_asked_for())
		bpf_map_delete_elem(&endpoints, &key);
}

/* What was kept; where nothing was and a call has just come back, what the socket tells now. */
static __always_inline void find_endpoint(
        __u64 ssl, const struct ssll_library *library, bool server, bool in_call, __u64 own, struct ssll_labels *labels)
{
	struct ssll_handshake_key key = key_of(ssl);
	struct ssll_endpoint endpoint = {}, *kept;

	if (!is_socket_asked_for())
		return;
	kept = bpf_map_lookup_elem(&endpoints, &key);
	if (kept)
		endpoint = *kept;
	else if (in_call)
		read_socket(ssl, library, server, own, &endpoint);
	set_endpoint(labels, &endpoint);
	bpf_map_delete_elem(&endpoints, &key);
}

#endif
