// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Each call into OpenSSL and its crypto as an event in a ring buffer, when it has ended and passes the filter.
 *
 * Measures as ssllatency.bpf.c does. An event that finds no room in the ring is dropped and counted; the traced thread never
 * waits. The reader looks by itself now and then, and is woken only when a good part of the ring is full. Of the target it
 * reads beyond that object's only the number of bytes that an `_ex` call gives back. Cost: a call that the filter leaves out
 * costs what it does there without the histogram; an event costs a reservation and 64 bytes.
 */
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#include "calls/freeing.bpf.h"
#include "calls/go_calls.bpf.h"
#include "common/programs.bpf.h"
#include "labels/who.bpf.h"

const volatile struct ssll_event_filter filter SEC(".rodata.filter") = {.outcomes = ~0U};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 23);
} events SEC(".maps");

/* Where the running calls of functions with a size_t * will put their bytes. Calls that never end drop out by age. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct ssll_start_key);
	__type(value, __u64);
} lengths SEC(".maps");

/* Whoever comes first: there is one table for all processes, and the lines of the others say that they had no room. */
static __always_inline bool on_text(bool made)
{
	(void)made;
	return true;
}

static __always_inline __u32 length_argument(__u32 operation)
{
	return operation < SSLL_OPERATIONS ? filter.length_argument[operation] : 0;
}

static __always_inline void on_call_begin(const struct pt_regs *ctx, const struct ssll_start_key *key)
{
	__u32 number = length_argument(key->operation);
	__u64 pointer;

	if (!number)
		return;
	pointer = argument(ctx, number - 1);
	if (bpf_map_update_elem(&lengths, key, &pointer, BPF_ANY))
		bpf_map_delete_elem(&lengths, key); /* what an earlier call left must not stand in */
}

/* What the call has read or written, -1 where it isn't known. */
static __always_inline __s64 bytes_of(const struct ended_call *call)
{
	__u64 *pointer, bytes;

	if (call->verdict.outcome != SSLL_SUCCESS)
		return -1;
	if (call->convention == SSLL_SSL_IO)
		return (__s32)call->returned;
	if (!length_argument(call->key.operation))
		return -1;
	pointer = bpf_map_lookup_elem(&lengths, &call->key);
	if (!pointer || !*pointer || bpf_probe_read_user(&bytes, sizeof(bytes), (void *)*pointer))
		return -1;
	return bytes;
}

/* Only the record with which so much waits that the reader should come wakes it, and those right behind it. */
static __always_inline __u64 wake_up(void)
{
	const __u64 window = 16 * sizeof(struct ssll_event);
	__u64 waiting = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA);

	return waiting - filter.wake_bytes < window ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

static __always_inline bool ends_handshake(const struct ended_call *call)
{
	return call->convention == SSLL_SSL_HANDSHAKE && call->verdict.outcome != SSLL_RETRY;
}

/* Who shook hands. Not inlined: it needs a stack of its own. Nor static: the verifier would follow it after each way to an
 * event, which took Linux 6.1 most of the instructions that it goes through in a program at most. */
__noinline int read_who(__u64 ssl, __u32 index, bool succeeded, struct ssll_event *event)
{
	struct ssll_labels labels = {.ending = succeeded ? SSLL_ENDING_SUCCESS : SSLL_ENDING_FAILURE};
	struct ssll_library *library = library_of(index);
	struct ssll_endpoint endpoint = {};
	bool server = true;

	if (!library || !event)
		return 0;
	read_bases(ssl, library, &labels);
	read_names(ssl, library, &labels);
	if (is_socket_asked_for()) {
		read_side(ssl, library, &server);
		read_socket(ssl, library, server, 0, &endpoint);
		set_endpoint(&labels, &endpoint);
	}
	event->known = labels.known;
	for (__u32 i = 0; i < 4; i++)
		event->who[i] = labels.values[SSLL_LABEL_SNI + i];
	return 0;
}

static __always_inline void add_who(const struct ended_call *call, struct ssll_event *event)
{
	for (__u32 i = 0; i < 4; i++)
		event->who[i] = 0;
	if (ends_handshake(call))
		read_who(call->ssl, call->library, call->verdict.outcome == SSLL_SUCCESS, event);
}

static __always_inline int on_call_end(const struct ended_call *call)
{
	struct ssll_event *event;

	if (call->duration_ns < filter.minimum_ns || !(filter.outcomes & 1U << (call->verdict.outcome & 31)))
		return 0;
	event = who_config.labels ? bpf_ringbuf_reserve(&events, sizeof(*event), 0)
	                          : bpf_ringbuf_reserve(&events, SSLL_EVENT_SIZE_SHORT, 0);
	if (!event) {
		count(&counters.events_dropped);
		return 0;
	}
	event->ended_ns = call->ended_ns;
	event->duration_ns = call->duration_ns;
	event->returned = call->returned;
	event->bytes = bytes_of(call);
	event->tgid = call->key.tgid;
	event->tid = this_thread();
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	event->operation = call->key.operation;
	event->outcome = call->verdict.outcome;
	event->reason = call->verdict.reason;
	event->known = 0;
	if (who_config.labels)
		add_who(call, event);
	bpf_ringbuf_submit(event, wake_up());
	return 0;
}

/* Keeps the event in the object's BTF, from which user space's side of the ABI is generated. */
const enum ssll_event_size *ssll_event_size_btf __attribute__((unused));
const struct ssll_event *ssll_event_btf __attribute__((unused));

char LICENSE[] SEC("license") = "Dual BSD/GPL";
