/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How the clocks of threads stood a while ago. Which thread will come for a ClientHello isn't known when it arrives, so the
 * clocks of each that has begun handshakes at its port are kept from time to time: when it begins a call, and where it hasn't
 * for a while, when a ClientHello arrives. The thread that comes looks up how its own stood at the arrival.
 */
#ifndef HISTORY_BPF_H
#define HISTORY_BPF_H

#include "common/histogram.bpf.h"
#include "running/clocks.bpf.h"

enum {
	SAMPLES_APART_NS = 1000 * 1000,       /* in the first ring, and in each further one */
	TIMES_APART = 4,                      /* so many times as much */
	LEAST_DISTANCE_NS = SAMPLES_APART_NS, /* from a sample to the moment that it may stand for; */
	DISTANCE_OF_DURATION = 8,             /* of a longer time, such a part of it */
};

/* By thread. One that is pushed out leaves the queues that it comes for unsplit. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct ssll_history);
} histories SEC(".maps");

/* By the server's port. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct ssll_workers);
} workers SEC(".maps");

const struct ssll_history blank_history = {};
const struct ssll_workers blank_workers = {};

static __always_inline struct ssll_sample *last_of(struct ssll_ring *ring)
{
	return &ring->samples[(ring->made - 1) % SSLL_SAMPLES];
}

__noinline int add_sample(struct ssll_history *history, __u32 tid, __u64 now)
{
	__u64 apart_ns = SAMPLES_APART_NS;
	struct ssll_sample *made;
	struct ssll_ring *ring;

	if (!history || now - last_of(&history->rings[0])->at_ns < apart_ns)
		return 0;
	made = &history->rings[0].samples[history->rings[0].made++ % SSLL_SAMPLES];
	read_clocks((struct task_struct *)history->task, tid, &made->clocks, now);
	made->at_ns = now;
	for (__u32 i = 1; i < SSLL_RINGS; i++) {
		ring = &history->rings[i];
		apart_ns *= TIMES_APART;
		if (now - last_of(ring)->at_ns >= apart_ns)
			ring->samples[ring->made++ % SSLL_SAMPLES] = *made;
	}
	return 0;
}

/* The thread that runs begins a call of a handshake. */
static __always_inline void sample_own(__u64 now)
{
	__u32 tid = this_thread();
	struct ssll_history *history = bpf_map_lookup_elem(&histories, &tid);

	if (history)
		add_sample(history, tid, now);
}

/* A ClientHello arrives at the port. */
__noinline int sample_workers(__u32 port, __u64 now)
{
	__u32 key = port, tid;
	struct ssll_workers *of_port = bpf_map_lookup_elem(&workers, &key);
	struct ssll_history *history;

	if (!of_port)
		return 0;
	for (__u32 i = 0; i < SSLL_WORKERS; i++) {
		tid = of_port->tids[i];
		history = tid ? bpf_map_lookup_elem(&histories, &tid) : NULL;
		if (history)
			add_sample(history, tid, now);
	}
	return 0;
}

/* The thread that runs has begun a handshake at the port. */
__noinline int keep_worker(__u32 port, __u64 now)
{
	__u32 key = port, tid = this_thread();
	struct ssll_workers *of_port = lookup_or_init(&workers, &key, &blank_workers);
	struct ssll_history *history = lookup_or_init(&histories, &tid, &blank_history);

	if (!of_port || !history)
		return 0;
	history->task = bpf_get_current_task();
	add_sample(history, tid, now);
	for (__u32 i = 0; i < SSLL_WORKERS; i++) {
		if (of_port->tids[i] == tid)
			return 0;
	}
	of_port->tids[of_port->made++ % SSLL_WORKERS] = tid;
	return 0;
}

static __always_inline __u64 distance_of(const struct ssll_sample *sample, __u64 moment)
{
	return sample->at_ns > moment ? sample->at_ns - moment : moment - sample->at_ns;
}

/* Which of the ring's samples is nearest to the moment. Not inlined, and without a branch: the verifier would follow each of
 * the ways through it with each of those before it. */
__noinline __u32 nearest_in(const struct ssll_ring *ring, __u64 moment)
{
	__u64 least_ns = 1ULL << 62, nearest = 0;

	if (!ring)
		return 0;
	for (__u32 i = 0; i < SSLL_SAMPLES; i++) {
		__u64 after_ns = ring->samples[i].at_ns - moment, negative = (__s64)after_ns >> 63;
		__u64 distance_ns = (after_ns ^ negative) - negative, nearer = -greater(least_ns, distance_ns);

		least_ns += (distance_ns - least_ns) & nearer;
		nearest += (i - nearest) & nearer;
	}
	return nearest;
}

/* The sample of the thread that runs that is nearest to a moment, which a duration until now began with; NULL where none is
 * near enough. */
static __always_inline const struct ssll_sample *sample_at(__u64 moment, __u64 duration_ns)
{
	__u64 most_ns = duration_ns / DISTANCE_OF_DURATION;
	__u32 tid = this_thread();
	struct ssll_history *history = bpf_map_lookup_elem(&histories, &tid);
	const struct ssll_sample *sample, *best = NULL;

	if (!history)
		return NULL;
	if (most_ns < LEAST_DISTANCE_NS)
		most_ns = LEAST_DISTANCE_NS;
	for (__u32 i = 0; i < SSLL_RINGS; i++) {
		sample = &history->rings[i].samples[nearest_in(&history->rings[i], moment) % SSLL_SAMPLES];
		if (distance_of(sample, moment) <= most_ns) {
			most_ns = distance_of(sample, moment);
			best = sample;
		}
	}
	return best && best->clocks.tid == tid ? best : NULL;
}

/*
 * Something lay in the queue since that moment, and the thread that runs has come for it now: adds what it did meanwhile.
 * `expected` are the clocks at that moment of the thread that was expected to come.
 */
__noinline int add_meanwhile(
        struct ssll_handshake *handshake, const struct ssll_clocks *expected, __u64 moment, __u64 duration_ns, __u64 now)
{
	const struct ssll_clocks *before = expected;
	const struct ssll_sample *sample = NULL;
	struct ssll_thread *thread = find_thread();

	if (!handshake)
		return 0;
	if (!before || !before->tid || before->tid != this_thread()) { /* another thread has come */
		sample = sample_at(moment, duration_ns);
		before = sample ? &sample->clocks : NULL;
	}
	if (!before || !thread) /* it was in no call of a handshake before */
		return 0;
	read_own_clocks(thread, now);
	if (handshake->flags & SSLL_FLAG_GOROUTINE && sample)
		add_go_doings(handshake, sample, &thread->clocks, duration_ns, now);
	else if (!(handshake->flags & SSLL_FLAG_GOROUTINE))
		add_doings(handshake, before, &thread->clocks, duration_ns, now);
	return 0;
}

#endif
