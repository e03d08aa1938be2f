// SPDX-License-Identifier: Apache-2.0
// A program with stacks of its own, whose functions bear the names of OpenSSL's, so that a tracer plans and probes them. It
// does with its calls what breaks tracers that pair them by thread or by order: it pauses inside them on one stack and goes on
// with another, above or below it in memory, resumes them first in first out or last in first out, recurses, jumps out of them
// with longjmp, and ends threads inside them.
//
// It checks every value that comes back, and prints how often each function began and ended, by outcome, as one line of JSON:
// what a tracer must have counted. The difference of "entries" and "completed" is calls that never returned. Exit status 0;
// 1 if a value was wrong; 2 for a mistake on the command line. No OpenSSL is needed.
#include "fibers.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { THREAD_STACK = 1 << 20, FIBER_STACK = 1 << 14, FRAME = 512 }; // bytes; FRAME: more than a level of recursion takes
enum { MAX_MAIN_STACK = 64 << 20 }; // Linux keeps at least 128 MiB below the main stack free, whatever the limit was at exec.
enum { FAILING = 5 };               // every fifth job's signature fails

static volatile sig_atomic_t told_to_stop;

// ---- What a fiber does ----

static void jump_out(struct job *job, long times)
{
	for (volatile long i = 0; i < times; i++) {
		job->key.deed = JUMP;
		if (_setjmp(job->key.landing) == 0) {
			sign(job);
			expect(false, "return where a jump was due", job->key.number);
		}
		job->key.deed = RETURN;
	}
}

static void fiber(void)
{
	struct job *job = current;
	unsigned int pauses = job->key.pauses;

	job->key.pauses = 0;
	jump_out(job, settings.jumps);
	job->key.pauses = pauses;
	if (settings.inside)
		expect(SSL_do_handshake(&job->ssl) == (job->key.fails ? -1 : 1), "value of SSL_do_handshake", job->key.number);
	else
		sign(job);
	job->done = true;
	swapcontext(&job->here, &job->dispatcher);
	abort(); // A job that is done is never entered again.
}

static size_t fiber_stack(void)
{
	return (FIBER_STACK + FRAME * (size_t)settings.depth + 63) & ~(size_t)63;
}

static void prepare(struct job *job, unsigned int number)
{
	job->ssl = (SSL){.version = 0x304, .rwstate = SSL_NOTHING, .server = 1, .job = job};
	job->key = (struct key){.number = number, .pauses = settings.pauses, .fails = number % FAILING == FAILING - 1};
	job->depth = settings.depth;
	job->paused = job->done = false;
	getcontext(&job->here);
	job->here.uc_stack.ss_sp = job->stack;
	job->here.uc_stack.ss_size = fiber_stack();
	job->here.uc_link = NULL;
	makecontext(&job->here, fiber, 0);
}

// ---- The dispatcher: starts all jobs, then resumes them in the order that was asked for, until all are done ----

static void step(struct job *job, bool last)
{
	if (settings.inside)
		enter(job);
	else {
		int due = !last || job->key.fails ? -1 : 1;
		expect(SSL_do_handshake(&job->ssl) == due, "value of SSL_do_handshake", job->key.number);
		expect(SSL_want(&job->ssl) == (last ? SSL_NOTHING : SSL_ASYNC_PAUSED), "rwstate", job->key.number);
	}
	expect(job->done == last && job->paused == !last, "state after a step", job->key.number);
}

static void run_round(struct job *jobs)
{
	for (long i = 0; i < settings.jobs; i++)
		prepare(&jobs[i], i);
	for (long pass = 0; pass <= settings.pauses; pass++)
		for (long i = 0; i < settings.jobs; i++)
			step(&jobs[pass && settings.lifo ? settings.jobs - 1 - i : i], pass == settings.pauses);
}

static void check_places(struct job *jobs)
{
	char *here = __builtin_frame_address(0);

	for (long i = 0; i < settings.jobs; i++) {
		bool above = settings.stacks == ABOVE || (settings.stacks == MIXED && i % 2);
		expect((jobs[i].stack > here) == above, "place of the stack", i);
	}
}

// `below` and `above` have room for the stacks that belong there.
static __attribute__((noinline)) void dispatch(char *below, char *above)
{
	struct job *jobs = calloc(settings.jobs, sizeof(*jobs)), lone = {.depth = settings.depth};

	if (!jobs) {
		perror("fibers: calloc");
		exit(1);
	}
	for (long i = 0; i < settings.jobs; i++) {
		char **free_part = settings.stacks == ABOVE || (settings.stacks == MIXED && i % 2) ? &above : &below;
		jobs[i].stack = *free_part;
		*free_part += fiber_stack();
	}
	check_places(jobs);
	for (long round = 0; !told_to_stop && (settings.rounds == 0 || round < settings.rounds); round++) {
		jump_out(&lone, settings.jumps);
		run_round(jobs);
	}
	free(jobs);
}

static size_t room(bool above)
{
	size_t stacks = settings.stacks == MIXED ? (size_t)settings.jobs / 2 + 1 : (size_t)settings.jobs;

	return settings.stacks == (above ? BELOW : ABOVE) ? 0 : stacks * fiber_stack();
}

static char *map(size_t size)
{
	char *place = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (place == MAP_FAILED) {
		perror("fibers: mmap");
		exit(1);
	}
	return place;
}

// ---- Where the dispatcher runs ----

static void *run_thread(void *mapping)
{
	char *below = mapping;

	dispatch(below, below + room(false) + THREAD_STACK);
	return NULL;
}

static void start(pthread_t *thread, char *stack, void *(*function)(void *), void *argument)
{
	pthread_attr_t attributes;
	int error;

	pthread_attr_init(&attributes);
	pthread_attr_setstack(&attributes, stack, THREAD_STACK);
	error = pthread_create(thread, &attributes, function, argument);
	pthread_attr_destroy(&attributes);
	if (error) {
		fprintf(stderr, "fibers: pthread_create: %s\n", strerror(error));
		exit(1);
	}
}

// Each dispatcher's stack lies in the middle of a mapping, its fibers' stacks before and behind it.
static void run_on_threads(void)
{
	size_t below = (room(false) + 4095) & ~(size_t)4095, size = below + THREAD_STACK + room(true);
	pthread_t threads[64];
	char *mappings[64];

	for (long i = 0; i < settings.threads; i++) {
		mappings[i] = map(size);
		start(&threads[i], mappings[i] + below, run_thread, mappings[i] + below - room(false));
	}
	for (long i = 0; i < settings.threads; i++) {
		pthread_join(threads[i], NULL);
		munmap(mappings[i], size);
	}
}

// The main stack is above every mapping, so stacks above it are carved out of it, from a frame that is further up.
static __attribute__((noinline)) void run_on_main(void)
{
	char *above = __builtin_alloca(room(true) + 64);
	char *below = room(false) ? map(room(false)) : NULL;

	dispatch(below, (char *)(((uintptr_t)above + 63) & ~(uintptr_t)63));
	if (below)
		munmap(below, room(false));
}

static void grow_main_stack(void)
{
	struct rlimit limit;
	size_t needed = room(true) + (8 << 20);

	if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= needed)
		return;
	limit.rlim_cur = needed;
	if (needed > MAX_MAIN_STACK || setrlimit(RLIMIT_STACK, &limit) != 0) {
		fprintf(stderr, "fibers: so many stacks don't fit into the main stack; take fewer --jobs, or --on thread\n");
		exit(2);
	}
}

// ---- Threads that end inside a call, while a fiber of theirs is paused in another one ----

static void *leave(void *mapping)
{
	struct job job = {.stack = mapping};
	static struct key key = {.deed = LEAVE};
	uint64_t digest = 0, signature;
	unsigned int size;

	prepare(&job, 0);
	job.key.pauses = 1;
	enter(&job);
	expect(job.paused, "state of a job whose thread ends", 0);
	RSA_sign((int)settings.depth, (unsigned char *)&digest, sizeof(digest), (unsigned char *)&signature, &size, &key);
	expect(false, "return where the thread's end was due", 0);
	return NULL;
}

static void run_exits(void)
{
	size_t size = (fiber_stack() + 4095) & ~(size_t)4095;

	for (long i = 0; i < settings.exits && !told_to_stop; i++) {
		char *mapping = map(size + THREAD_STACK);
		pthread_t thread;
		void *result = NULL;

		start(&thread, mapping + size, leave, mapping);
		pthread_join(thread, &result);
		expect(result != NULL, "result of a thread", 0);
		munmap(mapping, size + THREAD_STACK);
	}
}

static void stop(int number)
{
	told_to_stop = number;
}

static void wait_for_line(void)
{
	int c;

	while (settings.wait && (c = getchar()) != EOF && c != '\n') {
	}
}

int main(int argc, char **argv)
{
	parse_options(argc, argv);
	signal(SIGTERM, stop);
	if (settings.wait) {
		printf("ready\n");
		fflush(stdout);
	}
	wait_for_line();
	if (settings.on_thread) {
		run_on_threads();
	} else {
		grow_main_stack();
		run_on_main();
	}
	run_exits();
	print_counts();
	wait_for_line();
	return all_was_right() ? 0 : 1;
}
