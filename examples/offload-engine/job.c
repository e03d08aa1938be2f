// SPDX-License-Identifier: Apache-2.0
#include "job.h"
#include <errno.h>
#include <openssl/async.h>
#include <openssl/err.h>
#include <sched.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#ifndef ERR_raise // before OpenSSL 3.0
#define ERR_raise(library, reason) ERR_put_error(library, 0, reason, __FILE__, __LINE__)
#endif

struct work_counters work_counters;
static const char wake_key; // its address names our descriptor among those of an ASYNC_WAIT_CTX

void work__perform(struct work *work)
{
	pool__delay();
	ERR_set_mark();
	work->result = work->perform(work);
	// The queue of errors belongs to this thread; the caller may be on another one.
	work->error = work->result > 0 ? 0 : ERR_peek_last_error();
	ERR_pop_to_mark();
}

static void close_wake_fd(ASYNC_WAIT_CTX *context, const void *key, OSSL_ASYNC_FD wake_fd, void *unused)
{
	(void)context, (void)key, (void)unused;
	pool__forget(wake_fd);
	close(wake_fd);
}

// The descriptor by which the application learns that the job can go on: one for each ASYNC_WAIT_CTX, that is for each SSL.
static int wake_fd_of(ASYNC_JOB *job)
{
	ASYNC_WAIT_CTX *context = ASYNC_get_wait_ctx(job);
	OSSL_ASYNC_FD wake_fd = -1;
	void *unused;

	if (!context)
		return -1;
	if (ASYNC_WAIT_CTX_get_fd(context, &wake_key, &wake_fd, &unused))
		return wake_fd;
	wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (wake_fd >= 0 && !ASYNC_WAIT_CTX_set_wait_fd(context, &wake_key, wake_fd, NULL, close_wake_fd)) {
		close(wake_fd);
		wake_fd = -1;
	}
	return wake_fd;
}

// At least one pause for each piece of work, even one that is done already: so pauses can be counted on.
static void pause_until_done(struct work *work)
{
	uint64_t unused;

	for (;;) {
		atomic_fetch_add(&work_counters.pauses, 1);
		ASYNC_pause_job();
		if (pool__is_done(work))
			break;
		// Resumed for another reason, or ASYNC_block_pause is in force and ASYNC_pause_job comes back at once.
		atomic_fetch_add(&work_counters.early, 1);
		sched_yield();
	}
	while (read(work->wake_fd, &unused, sizeof(unused)) < 0 && errno == EINTR) {
	}
}

int job__run(struct work *work)
{
	ASYNC_JOB *job = ASYNC_get_current_job();

	work->wake_fd = job ? wake_fd_of(job) : -1;
	if (work->wake_fd >= 0 && pool__submit(work)) {
		atomic_fetch_add(&work_counters.offloaded, 1);
		pause_until_done(work);
	} else {
		atomic_fetch_add(job ? &work_counters.refused : &work_counters.synchronous, 1);
		work__perform(work);
	}
	if (work->error)
		ERR_raise(ERR_GET_LIB(work->error), ERR_GET_REASON(work->error));
	return work->result;
}
