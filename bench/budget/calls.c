/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loaded into a server by LD_PRELOAD: counts and times its SSL_read and SSL_write calls that succeed, in the server itself and
 * without any probe, so that estimates can be held against the truth. What it finds lies in the shared file that the
 * environment names in CALLS_FILE: for each function the calls that ended in each 10 ms of the monotonic clock, and how many
 * took how long. For a server of one thread in each process.
 *
 * Its symbols are of no type: for the dynamic linker they serve, but no tracer takes the library for one that does TLS.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { READ, WRITE, FUNCTIONS };
enum { SLOT_NS = 10000000, SLOTS = 1 << 20, OCTAVES = 40, STEPS_LOG2 = 6, BUCKETS = OCTAVES << STEPS_LOG2 };

struct calls {
	uint64_t ended[SLOTS];  /* by time, in a ring that must not come round */
	uint64_t took[BUCKETS]; /* by duration: 64 buckets an octave of nanoseconds */
};

typedef int (*reader)(void *ssl, void *buffer, int size);
typedef int (*writer)(void *ssl, const void *buffer, int size);

static struct calls *calls;
static reader real_read;
static writer real_write;

__attribute__((constructor)) static void begin(void)
{
	const char *name = getenv("CALLS_FILE");
	int file = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
	void *memory;

	real_read = (reader)dlsym(RTLD_NEXT, "SSL_read");
	real_write = (writer)dlsym(RTLD_NEXT, "SSL_write");
	if (file < 0)
		return;
	memory = mmap(NULL, FUNCTIONS * sizeof(struct calls), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	if (memory != MAP_FAILED)
		calls = memory;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static unsigned bucket_of(uint64_t took_ns)
{
	uint64_t value = took_ns < 1ULL << STEPS_LOG2 ? 1ULL << STEPS_LOG2 : took_ns;
	unsigned octave = 63 - __builtin_clzll(value);
	unsigned bucket = (octave << STEPS_LOG2) | (value >> (octave - STEPS_LOG2) & ((1U << STEPS_LOG2) - 1));

	return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static void count(int function, uint64_t began_ns)
{
	uint64_t ended_ns = now_ns();

	if (!calls)
		return;
	__atomic_fetch_add(&calls[function].ended[ended_ns / SLOT_NS % SLOTS], 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&calls[function].took[bucket_of(ended_ns - began_ns)], 1, __ATOMIC_RELAXED);
}

__attribute__((visibility("hidden"))) int counted_read(void *ssl, void *buffer, int size)
{
	uint64_t began_ns = now_ns();
	int read = real_read(ssl, buffer, size);

	if (read > 0)
		count(READ, began_ns);
	return read;
}

__attribute__((visibility("hidden"))) int counted_write(void *ssl, const void *buffer, int size)
{
	uint64_t began_ns = now_ns();
	int written = real_write(ssl, buffer, size);

	if (written > 0)
		count(WRITE, began_ns);
	return written;
}

#define JUMP(name, function) __asm__(".text\n.globl " #name "\n.type " #name ", @notype\n" #name ": jmp " #function)
JUMP(SSL_read, counted_read);
JUMP(SSL_write, counted_write);
