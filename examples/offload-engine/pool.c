// SPDX-License-Identifier: Apache-2.0
// The device that the engine or provider pretends to have: threads that take one piece of work after the other and need at
// least the delay for each. They start at the first one, so that a server which forks its workers after loading it has them.
#include "job.h"
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t some_work = PTHREAD_COND_INITIALIZER;
static struct work *first, **last = &first; // queued
static struct work *running;                // linked by `next` as well
static pthread_t threads[POOL_MAX_THREADS];
static long wanted = 4, started;
static bool stopping;
static atomic_long delay_us;

bool pool__set_threads(long number)
{
	bool fine = false;

	pthread_mutex_lock(&lock);
	if (number >= 1 && number <= POOL_MAX_THREADS && !started) {
		wanted = number;
		fine = true;
	}
	pthread_mutex_unlock(&lock);
	return fine;
}

bool pool__set_delay_us(long number)
{
	if (number < 0 || number > POOL_MAX_DELAY_US)
		return false;
	delay_us = number;
	return true;
}

bool pool__read_environment(void)
{
	const char *threads = getenv("OFFLOAD_THREADS"), *delay = getenv("OFFLOAD_DELAY_US");

	return (!threads || pool__set_threads(atol(threads))) && (!delay || pool__set_delay_us(atol(delay)));
}

void pool__delay(void)
{
	long us = delay_us;
	struct timespec left = {us / 1000000, us % 1000000 * 1000};

	while (us && nanosleep(&left, &left) != 0 && errno == EINTR) {
	}
}

static struct work *take(void)
{
	while (!first && !stopping)
		pthread_cond_wait(&some_work, &lock);
	struct work *work = first;
	if (work) {
		first = work->next;
		if (!first)
			last = &first;
		work->next = running;
		running = work;
	}
	return work;
}

// Under the lock, so that whoever sees `done` finds the descriptor readable, and pool__forget comes before or after.
static void finish(struct work *work)
{
	const uint64_t one = 1;
	struct work **link = &running;

	while (*link != work)
		link = &(*link)->next;
	*link = work->next;
	work->done = true;
	if (work->wake_fd >= 0)
		while (write(work->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR) {
		}
}

static void *serve(void *unused)
{
	struct work *work;

	pthread_mutex_lock(&lock);
	while ((work = take()) != NULL) {
		pthread_mutex_unlock(&lock);
		work__perform(work);
		pthread_mutex_lock(&lock);
		finish(work);
	}
	pthread_mutex_unlock(&lock);
	return unused;
}

static bool start(void)
{
	while (started < wanted && pthread_create(&threads[started], NULL, serve, NULL) == 0)
		started++;
	return started > 0;
}

// Queues it; false where there is no thread to do it.
bool pool__submit(struct work *work)
{
	bool fine;

	pthread_mutex_lock(&lock);
	fine = !stopping && start();
	if (fine) {
		work->next = NULL;
		*last = work;
		last = &work->next;
		pthread_cond_signal(&some_work);
	}
	pthread_mutex_unlock(&lock);
	return fine;
}

bool pool__is_done(struct work *work)
{
	pthread_mutex_lock(&lock);
	bool done = work->done;
	pthread_mutex_unlock(&lock);
	return done;
}

static void forget_in(struct work *list, int wake_fd)
{
	for (; list; list = list->next)
		if (list->wake_fd == wake_fd)
			list->wake_fd = -1;
}

// The descriptor is about to be closed, and its number may soon be another file's: nothing writes to it any more.
void pool__forget(int wake_fd)
{
	pthread_mutex_lock(&lock);
	forget_in(first, wake_fd);
	forget_in(running, wake_fd);
	pthread_mutex_unlock(&lock);
}

// Does what is queued, then ends the threads.
void pool__stop(void)
{
	pthread_mutex_lock(&lock);
	stopping = true;
	pthread_cond_broadcast(&some_work);
	pthread_mutex_unlock(&lock);
	for (long i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	started = 0;
	stopping = false;
}
