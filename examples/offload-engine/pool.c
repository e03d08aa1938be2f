// SPDX-License-Identifier: Apache-2.0
// The device that the engine pretends to have: threads that take one operation after the other and need at least the delay for
// each. They start at the first operation, so that a server which forks its workers after loading the engine has them too.
#include "offload.h"
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static struct operation *first, **last = &first; // queued
static struct operation *running;                // linked by `next` as well
static pthread_t threads[OFFLOAD_MAX_THREADS];
static long wanted = 4, started;
static bool stopping;
static atomic_long delay_us;

bool pool__set_threads(long number)
{
	bool fine = false;

	pthread_mutex_lock(&lock);
	if (number >= 1 && number <= OFFLOAD_MAX_THREADS && !started) {
		wanted = number;
		fine = true;
	}
	pthread_mutex_unlock(&lock);
	return fine;
}

bool pool__set_delay_us(long number)
{
	if (number < 0 || number > OFFLOAD_MAX_DELAY_US)
		return false;
	delay_us = number;
	return true;
}

void pool__delay(void)
{
	long us = delay_us;
	struct timespec left = {us / 1000000, us % 1000000 * 1000};

	while (us && nanosleep(&left, &left) != 0 && errno == EINTR) {
	}
}

static struct operation *take(void)
{
	while (!first && !stopping)
		pthread_cond_wait(&work, &lock);
	struct operation *operation = first;
	if (operation) {
		first = operation->next;
		if (!first)
			last = &first;
		operation->next = running;
		running = operation;
	}
	return operation;
}

// Under the lock, so that whoever sees `done` finds the descriptor readable, and pool__forget comes before or after.
static void finish(struct operation *operation)
{
	const uint64_t one = 1;
	struct operation **link = &running;

	while (*link != operation)
		link = &(*link)->next;
	*link = operation->next;
	operation->done = true;
	if (operation->wake_fd >= 0)
		while (write(operation->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR) {
		}
}

static void *serve(void *unused)
{
	struct operation *operation;

	pthread_mutex_lock(&lock);
	while ((operation = take()) != NULL) {
		pthread_mutex_unlock(&lock);
		operation__perform(operation);
		pthread_mutex_lock(&lock);
		finish(operation);
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

// Queues the operation; false where there is no thread to do it.
bool pool__submit(struct operation *operation)
{
	bool fine;

	pthread_mutex_lock(&lock);
	fine = !stopping && start();
	if (fine) {
		operation->next = NULL;
		*last = operation;
		last = &operation->next;
		pthread_cond_signal(&work);
	}
	pthread_mutex_unlock(&lock);
	return fine;
}

bool pool__is_done(struct operation *operation)
{
	pthread_mutex_lock(&lock);
	bool done = operation->done;
	pthread_mutex_unlock(&lock);
	return done;
}

static void forget_in(struct operation *list, int wake_fd)
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
	pthread_cond_broadcast(&work);
	pthread_mutex_unlock(&lock);
	for (long i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	started = 0;
	stopping = false;
}
