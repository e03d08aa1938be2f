// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Counts how often the stack of a uprobe program is overwritten by another thread's run of the same program. Threads on one
 * processor call a probed function, first with the program `unguarded` on it, then with `guarded` (private_stack.bpf.c).
 *
 *   clang -g -O2 -target bpf -idirafter /usr/include/$(uname -m)-linux-gnu -c private_stack.bpf.c -o private_stack.bpf.o
 *   cc -O2 -Wall -Wextra -pthread private_stack.c -lbpf -o private_stack
 *   ./private_stack [-m] [-r] [-t SECONDS] [private_stack.bpf.o]
 *
 * -m attaches by a uprobe_multi link (Linux 6.6) rather than by a perf event. -r adds a real-time thread that wakes every
 * millisecond and preempts the others wherever the kernel allows that. -t says how long the threads run for each program (3 s).
 * To be run as root. Stacks that were overwritten are a result, not a failure: the exit status is 0 unless the program couldn't
 * do its work.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#define THREADS 3
#define REAL_TIME_SLEEP_NS 1000000
#define UPROBE_MULTI 48 /* BPF_TRACE_UPROBE_MULTI, which headers older than Linux 6.6 lack */

static const char *const PROGRAMS[] = {"unguarded", "guarded"}; /* in the order of `counts` in private_stack.bpf.c */
static double seconds = 3, deadline_s;

static void fail(const char *what)
{
	fprintf(stderr, "private_stack: %s: %s\n", what, strerror(errno));
	exit(1);
}

__attribute__((noinline)) void probed(void)
{
	asm volatile("nop");
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static void *call(void *nothing)
{
	while (now_s() < deadline_s)
		probed();
	return nothing;
}

static void *call_in_real_time(void *nothing)
{
	struct sched_param priority = {.sched_priority = 1};
	struct timespec pause = {.tv_nsec = REAL_TIME_SLEEP_NS};

	if ((errno = pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority)))
		fail("a real-time thread");
	while (now_s() < deadline_s) {
		nanosleep(&pause, NULL);
		probed();
	}
	return nothing;
}

/* Runs the threads until the time is up. */
static void run_threads(int real_time)
{
	pthread_t threads[THREADS + 1];
	int number = THREADS + real_time;

	deadline_s = now_s() + seconds;
	for (int i = 0; i < number; i++)
		if ((errno = pthread_create(&threads[i], NULL, i < THREADS ? call : call_in_real_time, NULL)))
			fail("a thread");
	for (int i = 0; i < number; i++)
		pthread_join(threads[i], NULL);
}

/* Where the probed function is in this program's file. */
static unsigned long probed_offset(void)
{
	unsigned long address = (unsigned long)probed, start, end, offset;
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[4096];

	while (maps && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) == 3 && start <= address && address < end) {
			fclose(maps);
			return address - start + offset;
		}
	}
	errno = ENOENT;
	fail("the probed function");
	return 0;
}

/* A descriptor of the link. libbpf can do this since 1.3; the bare system call does it with older ones, and older headers. */
static int attach_multi(int program)
{
	__u64 offset = probed_offset();
	struct {
		__u32 program, target, attach_type, flags;
		__u64 path, offsets, reference_counters, cookies;
		__u32 count, multi_flags, pid, padding;
	} request = {
	        .program = program,
	        .attach_type = UPROBE_MULTI,
	        .path = (unsigned long)"/proc/self/exe",
	        .offsets = (unsigned long)&offset,
	        .count = 1,
	};

	return syscall(__NR_bpf, BPF_LINK_CREATE, &request, sizeof(request));
}

/* Lets threads run with the program attached. */
static void run_with(struct bpf_program *program, int multi, int real_time)
{
	struct bpf_link *link = NULL;
	int descriptor = -1;

	if (multi)
		descriptor = attach_multi(bpf_program__fd(program));
	else
		link = bpf_program__attach_uprobe(program, false, -1, "/proc/self/exe", probed_offset());
	if (descriptor < 0 && !link)
		fail("attaching");
	run_threads(real_time);
	if (multi)
		close(descriptor);
	else
		bpf_link__destroy(link);
}

static struct bpf_object *load(const char *path, int multi)
{
	struct bpf_object *object = bpf_object__open_file(path, NULL);
	struct bpf_program *program;

	if (!object)
		fail(path);
	if (multi)
		bpf_object__for_each_program(program, object) bpf_program__set_expected_attach_type(program, UPROBE_MULTI);
	if (bpf_object__load(object))
		fail("loading");
	return object;
}

static void print_counts(struct bpf_object *object)
{
	struct {
		unsigned long long runs, corrupted;
	} counts[2];
	struct bpf_map *map = bpf_object__find_map_by_name(object, ".bss");
	int key = 0;

	if (!map || bpf_map__value_size(map) != sizeof(counts) || bpf_map_lookup_elem(bpf_map__fd(map), &key, counts))
		fail("the counts");
	for (int i = 0; i < 2; i++)
		printf("%s: %llu runs, %llu corrupted\n", PROGRAMS[i], counts[i].runs, counts[i].corrupted);
}

/* The kernel, and how its scheduler says that it preempts, the mode in parentheses. */
static void print_kernel(int multi, int real_time)
{
	FILE *file = fopen("/sys/kernel/debug/sched/preempt", "r");
	char mode[64] = "unknown";
	struct utsname name;

	if (file) {
		if (fgets(mode, sizeof(mode), file))
			mode[strcspn(mode, "\n")] = '\0';
		fclose(file);
	}
	uname(&name);
	printf("Linux %s %s, preempt: %s, by %s%s\n", name.release, name.machine, mode, multi ? "uprobe_multi" : "perf event",
	        real_time ? ", with a real-time thread" : "");
}

static void stay_on_one_processor(void)
{
	int processor = sched_getcpu();
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(processor < 0 ? 0 : processor, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("staying on one processor");
}

int main(int count, char **words)
{
	int multi = 0, real_time = 0, option;
	struct bpf_object *object;

	while ((option = getopt(count, words, "mrt:")) != -1) {
		if (option == '?')
			return 2;
		multi |= option == 'm';
		real_time |= option == 'r';
		if (option == 't')
			seconds = atof(optarg);
	}
	object = load(optind < count ? words[optind] : "private_stack.bpf.o", multi);
	stay_on_one_processor();
	print_kernel(multi, real_time);
	for (int i = 0; i < 2; i++)
		run_with(bpf_object__find_program_by_name(object, PROGRAMS[i]), multi, real_time);
	print_counts(object);
	bpf_object__close(object);
	return 0;
}
