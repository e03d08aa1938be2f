/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * At which port a handshake over QUIC comes in, and who its peer is. No library has a socket then; but a server tells its
 * client by which connection ID it sends its first packets, and the kernel shows each packet that leaves. So a handshake's peer
 * is where the first packet goes that its process sends under the ID which the handshake has told.
 *
 * Packets by which a server answers without a connection bear an ID that a client chose (version negotiation), or one that no
 * handshake tells (Retry): they don't count. The ID is known only with its process, and what a first packet has told stays.
 */
#ifndef QUIC_PEERS_BPF_H
#define QUIC_PEERS_BPF_H

#include "handshakes/datagrams.bpf.h"
#include "labels/packets.bpf.h"
#include "labels/quic.bpf.h"
#include "labels/quic_ids.bpf.h"

/* Few are in use at a time: what is pushed out isn't known. Entries are changed by their keys only, never in place, as one that
 * was pushed out may be another's already. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct ssll_handshake_key);
	__type(value, struct ssll_quic_name);
} quic_names SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct ssll_quic_id);
	__type(value, struct ssll_quic_peer);
} quic_peers SEC(".maps");

static __always_inline bool watches_packets(void)
{
	return *(volatile __u64 *)&handshake_counters.watches_packets_ns > 1;
}

static __always_inline void note_quic_retry(struct ssll_handshake *handshake, __u64 at, __u64 end)
{
	enum quic_retry retry = find_quic_retry(at, end);

	if (retry != QUIC_RETRY_UNKNOWN)
		handshake->flags |= SSLL_FLAG_QUIC_RETRY_KNOWN;
	if (retry == QUIC_RETRY_SENT)
		handshake->flags |= SSLL_FLAG_QUIC_RETRY;
}

/* A server's handshake has told its client these parameters, as find_quic_parameters() says where they lie. An ID that is there
 * is another handshake's, which this one doesn't take part in. */
static __noinline int take_quic_parameters(__u64 ssl, struct ssll_handshake *handshake, __u64 parameters)
{
	struct ssll_handshake_key key = {.ssl = ssl, .tgid = this_process()};
	struct ssll_quic_name name = {.began_ns = handshake->began_ns, .id.tgid = key.tgid};
	struct ssll_quic_peer unknown = {.began_ns = handshake->began_ns};
	__u64 at = parameters >> 16, end = at + (parameters & 0xffff);

	if (!at)
		return 0;
	note_quic_retry(handshake, at, end);
	if (!read_own_id(at, end, &name.id) || bpf_map_update_elem(&quic_peers, &name.id, &unknown, BPF_NOEXIST))
		return 0;
	bpf_map_update_elem(&quic_names, &key, &name, BPF_ANY);
	watch_datagrams(key.tgid, true);
	return 0;
}

/* OpenSSL adds a message to the transcript of a handshake. */
static __always_inline int note_message(__u64 message, __u64 length)
{
	struct ssll_handshake *handshake;
	struct ssll_library *library;
	struct ssll_thread *thread;
	__u64 parameters;
	bool server = false;

	if (!watches_packets())
		return 0;
	parameters = parameters_in_message(message, length);
	if (!parameters)
		return 0;
	thread = find_thread();
	handshake = handshake_of_thread(thread);
	library = handshake ? library_of(handshake->library) : NULL;
	if (!thread || !library || !read_side(thread->ssl, library, &server) || !server || !is_of_quic(thread->ssl, library))
		return 0;
	return take_quic_parameters(thread->ssl, handshake, parameters);
}

/* BoringSSL adds this side's transport parameters to a message. They aren't in a structure of the connection's, but in one that
 * is gone once the handshake is over. */
static __always_inline int note_parameters(__u64 from)
{
	struct ssll_handshake *handshake;
	struct ssll_library *library;
	struct ssll_thread *thread;
	__u64 at = 0, length = 0;
	bool server = false;

	if (!watches_packets())
		return 0;
	thread = find_thread();
	handshake = handshake_of_thread(thread);
	library = handshake ? library_of(handshake->library) : NULL;
	if (!thread || !library || !read_side(thread->ssl, library, &server) || !server ||
	        !read_place(from, library, SSLL_PLACE_OF_QUIC_PARAMETERS, &at) ||
	        !read_place(from, library, SSLL_PLACE_OF_QUIC_PARAMETERS_LENGTH, &length))
		return 0;
	if (length > MOST_MESSAGE_BYTES || at >> 48)
		return 0;
	return take_quic_parameters(thread->ssl, handshake, at << 16 | length);
}

/* A server of QUIC sends a packet. */
static __noinline int note_packet_of_server(const struct sk_buff___sent *buffer)
{
	struct ssll_quic_id id = {.tgid = this_process()};
	struct ssll_quic_peer *peer, found = {};
	struct ends ends = {};
	__u64 at = read_sent(buffer, &ends);
	int number;

	if (!at || !read_source_id(at, end_of_sent(buffer), &id))
		return 0;
	peer = bpf_map_lookup_elem(&quic_peers, &id);
	if (!peer || peer->endpoint.port)
		return 0;
	found.began_ns = peer->began_ns;
	found.endpoint.port = ends.port;
	if (is_asked_for(SSLL_LABEL_PORT))
		found.endpoint.known |= 1U << SSLL_LABEL_PORT;
	if (is_asked_for(SSLL_LABEL_PEER)) {
		number = number_of_network(&ends);
		found.endpoint.peer = number > 0 ? number : 0;
		found.endpoint.known |= number > 0 ? 1U << SSLL_LABEL_PEER : number ? 0 : 1U << SSLL_LABEL_OTHER;
	}
	bpf_map_update_elem(&quic_peers, &id, &found, BPF_EXIST);
	return 0;
}

/* Any packet of the machine is handed to a device. The process that runs then is who sends it, if a socket is told with it. */
static __always_inline int note_packet(__u64 buffer)
{
	__u32 tgid = this_process();
	struct ssll_datagrams *server = bpf_map_lookup_elem(&datagrams, &tgid);

	if (!server || !server->tells || !may_have_long_header((const struct sk_buff___sent *)buffer))
		return 0;
	return note_packet_of_server((const struct sk_buff___sent *)buffer);
}

/* Where the first packet of a handshake that is over has gone; what is kept of it goes. */
static __noinline bool take_quic_peer(__u64 ssl, __u64 began_ns, struct ssll_endpoint *endpoint)
{
	struct ssll_handshake_key key = {.ssl = ssl, .tgid = this_process()};
	struct ssll_quic_name *name = bpf_map_lookup_elem(&quic_names, &key);
	struct ssll_quic_peer *peer;
	struct ssll_quic_id id;

	if (!name)
		return false;
	id = name->id;
	bpf_map_delete_elem(&quic_names, &key);
	peer = bpf_map_lookup_elem(&quic_peers, &id);
	if (!peer)
		return false;
	*endpoint = peer->endpoint;
	if (*(volatile __u64 *)&peer->began_ns != began_ns) /* that of an SSL that lay there before */
		return false;
	bpf_map_delete_elem(&quic_peers, &id);
	return endpoint->port;
}

#endif
