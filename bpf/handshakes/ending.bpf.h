/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a call that came back means for its handshake: what it waits for now, or that it is over. Then its times count by part,
 * why it failed, what it was like, and itself where it was slow.
 */
#ifndef HANDSHAKES_ENDING_BPF_H
#define HANDSHAKES_ENDING_BPF_H

#include "handshakes/certificates.bpf.h"
#include "handshakes/endpoints.bpf.h"
#include "handshakes/errors.bpf.h"
#include "handshakes/offload.bpf.h"
#include "handshakes/quic_peers.bpf.h"
#include "handshakes/tables.bpf.h"
#include "handshakes/waits.bpf.h"
#include "running/blocking.bpf.h"
#include "running/reads.bpf.h"
#include "stacks/outcome.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} singles SEC(".maps");

/* The time of phases from this one on is the rest's. */
static __always_inline void forget_phases(struct ssll_handshake *handshake, __u32 first)
{
	for (__u32 part = first; part < SSLL_PART_REST; part++)
		handshake->parts[part] = 0;
}

static __always_inline void complete_parts(struct ssll_handshake *handshake, bool server, __u64 now)
{
	__u64 phases = 0;

	if (handshake->flags & SSLL_FLAG_UNATTRIBUTED) {
		forget_phases(handshake, SSLL_PART_PRIVATE_KEY);
		count(&handshake_counters.unattributed);
	}
	if (handshake->flags & SSLL_FLAG_UNPHASED) {
		forget_phases(handshake, SSLL_PART_PRIVATE_KEY + 1);
		handshake->parts[SSLL_PART_ASSISTS] = 0;
	}
	for (__u32 part = SSLL_PART_PRIVATE_KEY; part < SSLL_PART_REST; part++)
		phases += handshake->parts[part];
	handshake->parts[SSLL_PART_WALL] = now - handshake->began_ns;
	handshake->parts[SSLL_PART_REST] = handshake->parts[SSLL_PART_CALLS] - phases;
	handshake->parts[SSLL_PART_WAIT_OFFLOAD] -= handshake->parts[SSLL_PART_QUEUE_OFFLOAD];
	handshake->parts[SSLL_PART_QUEUE_SERVER] += handshake->parts[SSLL_PART_QUEUE_OFFLOAD];
	handshake->parts[SSLL_PART_QUEUE] = handshake->parts[SSLL_PART_QUEUE_START] + handshake->parts[SSLL_PART_QUEUE_SERVER];
	if (server)
		handshake->parts[SSLL_PART_CLIENT_WAIT] =
		        handshake->parts[SSLL_PART_QUEUE_START] + handshake->parts[SSLL_PART_WALL];
	if (handshake->flags & SSLL_FLAG_UNSPLIT) {
		for (__u32 part = SSLL_PART_OFF_CPU_RUNNABLE; part <= SSLL_PART_REST_ASLEEP; part++)
			handshake->parts[part] = 0;
		handshake->parts[SSLL_PART_OFF_CPU] = handshake->parts[SSLL_PART_OFF_CPU_THROTTLED] = 0;
		if (!(handshake->flags & SSLL_FLAG_GOROUTINE)) /* those are none that could have been seen otherwise */
			count(&handshake_counters.unsplit);
		return;
	}
	handshake->parts[SSLL_PART_ON_CPU] = handshake->parts[SSLL_PART_CALLS] - handshake->parts[SSLL_PART_OFF_CPU];
	handshake->parts[SSLL_PART_REST_ASLEEP] =
	        at_most(handshake->parts[SSLL_PART_REST_ASLEEP], handshake->parts[SSLL_PART_REST]);
}

static __always_inline void emit_single(
        const struct ssll_handshake *handshake, const struct ssll_labels *labels, const struct ssll_cause_key *cause, __u64 now)
{
	struct ssll_single *single = bpf_ringbuf_reserve(&singles, sizeof(*single), 0);

	if (!single) {
		count(&handshake_counters.events_dropped);
		return;
	}
	single->ended_ns = now;
	for (__u32 part = 0; part < SSLL_PARTS; part++)
		single->parts[part] = handshake->parts[part];
	single->labels = *labels;
	single->cause = *cause;
	single->tgid = this_process();
	single->tid = this_thread();
	single->calls = handshake->calls;
	single->pauses = handshake->pauses;
	single->unphased = !!(handshake->flags & SSLL_FLAG_UNPHASED);
	bpf_get_current_comm(single->comm, sizeof(single->comm));
	bpf_ringbuf_submit(single, 0);
}

/* What only a server knows: OpenSSL's number is 0 until a HelloRetryRequest is sent. */
static __always_inline void find_retry(struct ssll_handshake *handshake, __u64 ssl, const struct ssll_library *library)
{
	__u64 retry = 0;

	if (!read_place(ssl, library, SSLL_PLACE_OF_HELLO_RETRY, &retry))
		return;
	handshake->flags |= retry ? SSLL_FLAG_RETRY_KNOWN | SSLL_FLAG_RETRY : SSLL_FLAG_RETRY_KNOWN;
}

/* By which scheme this side has signed; a server has in any handshake that isn't resumed, though perhaps by a key that isn't
 * the standard library's. */
static __always_inline void set_go_signature(struct ssll_labels *labels, const struct ssll_handshake *handshake)
{
	bool signs = handshake->key_operation || (labels->ending == SSLL_ENDING_SUCCESS && !labels->values[SSLL_LABEL_RESUMED]);

	if (handshake->signature || signs)
		set_label(labels, SSLL_LABEL_SIGNATURE, handshake->signature ? handshake->signature : SSLL_GO_KEY_SIGNED);
}

/* The port of this side of the handshake's own socket; 0 not known. */
static __always_inline __u32 port_of_own(const struct ssll_handshake *handshake, bool in_call)
{
	__u64 socket = in_call ? own_socket(handshake) : 0;

	return socket ? port_of((struct sock *)socket) : 0;
}

/* How a handshake ended, in a word that functions which aren't inlined return. `in_call`: a call of it has just come back,
 * which none has of one that is freed. */
union handshake_end {
	struct {
		__u8 ending; /* enum ssll_ending */
		__u8 end;    /* enum ssll_end */
		bool server;
		bool in_call;
	};
	__u32 word; /* 0: it goes on */
};

static __always_inline struct ssll_cause_key cause_of(const struct ssll_handshake *handshake, const union handshake_end *how)
{
	struct ssll_cause_key cause = {
	        .error = how->end == SSLL_END_ERROR ? handshake->error : 0, /* others, the library has taken back */
	        .state = SSLL_STATE_UNKNOWN,
	        .library = handshake->library,
	        .ending = how->ending,
	        .end = how->end,
	        .alert = handshake->alert,
	        .sent = !!(handshake->flags & SSLL_FLAG_ALERT_SENT),
	        .peer = handshake->flags / SSLL_FLAG_PEER & (SSLL_PEER_KNOWN | SSLL_PEER_LEFT | SSLL_PEER_UNDELIVERED),
	};

	return cause;
}

/* Nothing that goes over QUIC waits for a window of TCP. GnuTLS says that it wants to send, as it last did, whatever it waits
 * for, where its application takes the messages to the peer. */
static __always_inline void await_no_window(struct ssll_handshake *handshake)
{
	handshake->parts[SSLL_PART_WAIT_PEER_OR_SERVER] += handshake->parts[SSLL_PART_WAIT_WINDOW];
	handshake->parts[SSLL_PART_WAIT_WINDOW] = 0;
}

/* Returns whether a handshake goes over QUIC: a socket of TCP that its thread has read isn't its, whatever it was taken for. */
static __always_inline bool disown_if_quic(struct ssll_handshake *handshake, __u64 ssl, const struct ssll_library *library)
{
	struct ssll_thread *thread = find_thread();

	if (own_socket(handshake) || !is_of_quic(ssl, library)) /* what a library reads itself is TCP */
		return false;
	if (thread && !tells_without_tcp(library))
		thread->speaks_quic = 1;
	await_no_window(handshake);
	if (!handshake->socket)
		return true;
	forget_arrivals(handshake);
	disown(handshake);
	handshake->flags &= ~((__u32)SSLL_FLAG_PEER * (SSLL_PEER_KNOWN | SSLL_PEER_LEFT | SSLL_PEER_UNDELIVERED));
	return true;
}

/* Labels a server's handshake over QUIC with its port and its peer, by what was sent, or with its port, by what was received.
 * Returns the port that what was sent tells; 0: none. Not inlined: it has most of its own on the stack. */
static __noinline __u32 label_quic(__u64 ssl, __u64 began_ns, struct ssll_labels *labels)
{
	__u64 watched_ns = *(volatile __u64 *)&handshake_counters.watches_packets_ns;
	struct ssll_library *library = library_of(labels->library);
	bool tells = library && library->tells_ids;
	struct ssll_endpoint endpoint = {};
	__u32 port;

	if (tells)
		count(&handshake_counters.over_quic);
	if (tells || is_asked_for(SSLL_LABEL_PORT))
		watch_datagrams(this_process(), tells);
	if (take_quic_peer(ssl, began_ns, &endpoint)) {
		set_endpoint(labels, &endpoint);
		if (!is_asked_for(SSLL_LABEL_PORT))
			labels->values[SSLL_LABEL_PORT] = 0;
		return endpoint.port;
	}
	if (!is_asked_for(SSLL_LABEL_PORT))
		return 0;
	if (!tells || (watched_ns && began_ns > watched_ns + WATCHED_LONG_NS))
		count(&handshake_counters.without_port);
	port = port_of_datagrams(began_ns);
	if (port)
		set_label(labels, SSLL_LABEL_PORT, port);
	return 0;
}

/* Whether what has ended is no handshake: a ClientHello was looked into, or its beginning. Where that can't be read, it is all
 * that comes of its client's handshake, which has failed. */
static __noinline bool is_no_handshake(
        const struct ssll_handshake *handshake, __u64 ssl, const struct ssll_library *library, __u32 end)
{
	const union handshake_end how = {.word = end};
	bool freed = how.ending == SSLL_ENDING_ABANDONED && how.end == SSLL_END_NONE;
	bool rejected = how.ending == SSLL_ENDING_FAILURE && is_rejected(handshake);

	return how.server && (freed || rejected) && is_inspection(ssl, library);
}

/* Counts under its labels and its ending a handshake that is over and was seen whole. */
static __always_inline void count_handshake(struct ssll_handshake *handshake, __u64 ssl, const struct ssll_library *library,
        const union handshake_end *how, __u64 now)
{
	struct ssll_labels labels = {.ending = how->ending, .library = handshake->library};
	bool of_go = handshake->flags & SSLL_FLAG_GOROUTINE; /* which no more probes would tell more of */
	struct ssll_cause_key cause;
	bool server = how->server, over_quic = disown_if_quic(handshake, ssl, library);
	__u64 state = 0;
	__u32 port;

	cause = cause_of(handshake, how);
	if ((handshake->flags & (SSLL_FLAG_SLEPT | SSLL_FLAG_RETURNS)) == SSLL_FLAG_SLEPT) {
		count(&handshake_counters.slept);
		if (of_go) /* reads and writes of C's libraries would tell no more of it */
			count(&handshake_counters.slept_of_go);
	}
	if (handshake->flags & SSLL_FLAG_BOUNDED)
		count(&handshake_counters.bounded);
	if (server && !handshake->socket && !of_go)
		count(&handshake_counters.without_socket);
	if (how->ending == SSLL_ENDING_FAILURE && !has_libssl_error(handshake) && !of_go)
		count(&handshake_counters.unexplained);
	forget_arrivals(handshake);
	if (server)
		find_retry(handshake, ssl, library);
	complete_parts(handshake, server, now);
	set_label(&labels, SSLL_LABEL_ROLE, server);
	set_label(&labels, SSLL_LABEL_PROCESS, this_process());
	read_labels(ssl, library, &labels);
	if (!means_session(ssl, library, &labels))
		handshake->flags &= ~SSLL_FLAG_CACHE;
	if (of_go && server)
		set_go_signature(&labels, handshake);
	if (!of_go && handshake->signature)
		set_label(&labels, SSLL_LABEL_SIGNATURE, handshake->signature);
	read_names(ssl, library, &labels);
	if (handshake->flags & SSLL_FLAG_DISOWNED)
		forget_endpoint(ssl); /* it may be that of another handshake's socket */
	find_endpoint(ssl, library, server, how->in_call, shown_by_reads(handshake), &labels);
	port = server && over_quic ? label_quic(ssl, handshake->began_ns, &labels) : port_of_own(handshake, how->in_call);
	if (server && handshake_config.certificates)
		note_certificate(ssl, library, &labels, port, handshake->flags & SSLL_FLAG_CHOSEN ? handshake->chosen : 0);
	if (handshake->key_operation == SSLL_KEY_OPERATION_DECRYPT)
		clear_label(&labels, SSLL_LABEL_SIGNATURE); /* nothing was signed, though an algorithm was chosen */
	cause.alert = alert_on_the_wire(cause.alert, &labels);
	cause.tgid = add_times(&labels, handshake);
	if (handshake->pauses)
		count(&handshake_counters.paused);
	if (how->ending == SSLL_ENDING_SUCCESS) {
		add_labels(&labels, cause.tgid);
		add_key(handshake, &labels, cause.tgid);
	} else {
		if (read_place(ssl, library, SSLL_PLACE_OF_HAND_STATE, &state))
			cause.state = state;
		add_cause(&cause, handshake->parts[SSLL_PART_WALL]);
	}
	if (handshake->parts[SSLL_PART_QUEUE_START] + handshake->parts[SSLL_PART_WALL] >=
	        *(volatile __u64 *)&handshake_counters.threshold_ns)
		emit_single(handshake, &labels, &cause, now);
}

/* The handshake is over: counts it, and closes its record. Not inlined: a program takes the longer to load the longer it is,
 * and has this once. */
__noinline int finish_handshake(struct ssll_handshake *handshake, __u64 ssl, __u32 end, __u64 now)
{
	const union handshake_end how = {.word = end};
	struct ssll_library *library = handshake ? library_of(handshake->library) : NULL;

	if (!handshake || !library)
		return 0;
	if (handshake->flags & SSLL_FLAG_PARTIAL) {
		count(&handshake_counters.partial);
		close_handshake(ssl, this_process());
		return 0;
	}
	if (is_no_handshake(handshake, ssl, library, end)) {
		count(&handshake_counters.inspections);
		forget_arrivals(handshake);
		forget_endpoint(ssl);
	} else {
		count_handshake(handshake, ssl, library, &how, now);
	}
	if (how.end != SSLL_END_NONE && keeps_failing(library))
		mark_ended(handshake); /* a further call just fails again: it is no new handshake */
	else
		close_handshake(ssl, this_process());
	return 0;
}

/* Whether the handshake is of the side that is asked for; one that can't be read counts. */
static __always_inline bool read_wanted_side(__u64 ssl, const struct ssll_library *library, bool *server)
{
	*server = true;
	return !read_server(ssl, library, server) || is_wanted_side(*server);
}

/*
 * Whether the call that came back has completed the handshake: by itself, or on the way to something else. A server that allows
 * early data isn't in a handshake while it waits for the client's Finished, and yet has not reached its end; nor has a client
 * that sends early data. BoringSSL shows no state, but is in a handshake until then. Where neither is shown, a call that makes
 * nothing but the handshake tells it.
 */
static __always_inline bool is_complete(__u64 ssl, __u32 convention, bool success, const struct ssll_library *library)
{
	__u64 in_init = 1, reached = OPENSSL_STATE_OK;

	if (counts_states(library))
		return convention == SSLL_SSL_HANDSHAKE && success && is_mbedtls_over(ssl, library, true);
	if (begins_within_call(library) || !read_place(ssl, library, SSLL_PLACE_OF_IN_INIT, &in_init))
		return convention == SSLL_SSL_HANDSHAKE && success && !awaits_finished(ssl, library);
	if (in_init)
		return false;
	read_place(ssl, library, SSLL_PLACE_OF_HAND_STATE, &reached);
	return reached == OPENSSL_STATE_OK;
}

/* Not inlined, so that what comes after it is there once. */
static __noinline bool has_succeeded(__u64 cookie, __u64 value)
{
	return succeeded(cookie, value);
}

/*
 * What a call that came back means for its handshake. Returns how that has ended, as handshake_end's word. Not inlined: the
 * verifier looks at it once, instead of after each way through the call that came back.
 */
__noinline __u32 continue_or_end(struct ssll_handshake *handshake, __u64 ssl, __u64 cookie, __u64 value, __u64 now)
{
	struct ssll_library *library = handshake ? library_of(handshake->library) : NULL;
	union handshake_end how = {.ending = SSLL_ENDING_SUCCESS, .end = SSLL_END_NONE, .server = true, .in_call = true};
	bool success = has_succeeded(cookie, value);
	struct verdict verdict;

	if (!handshake || !library)
		return 0;
	if (!read_wanted_side(ssl, library, &how.server)) {
		close_handshake(ssl, this_process());
		return 0;
	}
	if (is_complete(ssl, field(cookie, SSLL_COOKIE_CONVENTION, 4), success, library))
		return how.word;
	if (success) { /* early data: the application goes on, and comes back */
		keep_endpoint(ssl, library, how.server, shown_by_reads(handshake));
		handshake->waiting = SSLL_PART_WAIT_APPLICATION;
		return 0;
	}
	verdict = judge_ssl(ssl, (__s32)value, library);
	if (verdict.end == SSLL_END_TRANSPORT && has_libssl_error(handshake))
		verdict = judge_raised();
	if (verdict.wait == SSLL_WAIT_HANDSHAKE && begins_anew(library)) {
		close_handshake(ssl, this_process());
		return 0;
	}
	if (verdict.outcome == SSLL_RETRY) {
		handshake->waiting = part_of_wait(verdict.wait);
		if (is_transport(handshake->waiting))
			transport_returns(handshake);
		if (handshake->waiting == SSLL_PART_WAIT_PEER) {
			if (handshake->calls > 1) /* else that was done as the call began */
				find_socket_again(handshake, ssl);
			await_arrival(handshake, ssl, now);
		}
		if (handshake->waiting == SSLL_PART_WAIT_OFFLOAD)
			begin_offload_wait(handshake);
		keep_endpoint(ssl, library, how.server, shown_by_reads(handshake));
		return 0;
	}
	keep_returned_error(handshake, ssl, (__s32)value, library);
	how.ending = verdict.end == SSLL_END_ERROR ? SSLL_ENDING_FAILURE : SSLL_ENDING_ABANDONED;
	how.end = verdict.end;
	return how.word;
}

#endif
