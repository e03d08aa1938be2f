// SPDX-License-Identifier: Apache-2.0
// A piece of work that a pool of threads does while the ASYNC job that needs it is paused, as the device behind an engine or a
// provider would do it.
#ifndef JOB_H
#define JOB_H

#include <stdatomic.h>
#include <stdbool.h>

enum { POOL_MAX_THREADS = 1024, POOL_MAX_DELAY_US = 10000000 };

// Lives on the stack of the ASYNC job that waits for it, with all that it reads and writes: whoever frees an SSL whose job is
// paused loses that stack (OpenSSL leaks it), but takes back the buffers that the job was called with.
struct work {
	int (*perform)(struct work *); // at most 0 where it failed
	int result;
	unsigned long error; // OpenSSL's error code from the thread that did the work
	bool done;
	int wake_fd; // readable when done; -1 once the waiter has gone
	struct work *next;
};

struct work_counters {
	atomic_ulong offloaded, synchronous, refused; // by a job, outside of one, by a job that couldn't wait
	atomic_ulong pauses, early;                   // calls of ASYNC_pause_job; those that came back before the work was done
};

extern struct work_counters work_counters;

// Inside an ASYNC job: gives it to the pool, and pauses the job until it is done. Outside of one: does it at once. Returns what
// it came to, with its error in the queue of this thread.
int job__run(struct work *work);
// Does it at once, after the delay.
void work__perform(struct work *work);

// pool.c
bool pool__set_threads(long threads);
bool pool__set_delay_us(long delay_us);
bool pool__read_environment(void); // OFFLOAD_THREADS, OFFLOAD_DELAY_US
void pool__delay(void);
bool pool__submit(struct work *work);
bool pool__is_done(struct work *work);
void pool__forget(int wake_fd);
void pool__stop(void);

#endif
