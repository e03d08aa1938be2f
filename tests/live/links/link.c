// SPDX-License-Identifier: Apache-2.0
// A link between two network namespaces, the program of link.py: two TUN devices, one in each, between which it carries packets
// so late, and loses some. It says "ready SERVER CLIENT", the descriptors of the namespaces, which are gone when it ends, as it
// does at the end of its input. It answers each of these lines with an empty one:
//   set DELAY LOSS SEED  from now on: the delay of each way in ns, and how many of a million data segments are lost, by a seed
//   drop WAY N           of each connection, the N-th data segment of way 0 (to the server) or 1 (to the client); 0: none
//   log                  first, for each data segment so far: WAY PORT SEQUENCE LENGTH TAKEN DELIVERED, the port the client's,
//                        the times in ns by CLOCK_MONOTONIC, DELIVERED 0 for one that was lost; and they are forgotten
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define MTU 1500
#define ROOM 4096     // packets on their way, each way
#define KEPT 262144   // segments in the log
#define SPIN_NS 60000 // a sleeping processor wakes up so late

enum { TO_SERVER, TO_CLIENT, WAYS };

struct packet {
	int64_t due;
	int record, length;
	uint8_t bytes[MTU];
};

struct queue {
	unsigned first, behind;
	struct packet packets[ROOM];
};

struct record {
	int way, port, length;
	uint32_t sequence;
	int64_t taken, delivered;
};

static struct queue queues[WAYS];
static struct record records[KEPT];
static int device[WAYS]; // by the way that its packets go
static int segments[WAYS][65536], recorded;
static int64_t delay;
static int loss, drop_way, drop_number;
static uint64_t random_state = 1;

static void fail(const char *what)
{
	fprintf(stderr, "link: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * SECOND + time.tv_nsec;
}

// A TUN device in a new namespace, whose descriptor is returned.
static int new_end(int *tun)
{
	struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI, .ifr_name = "tun0"};
	int namespace;

	if (unshare(CLONE_NEWNET))
		fail("unshare");
	*tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (*tun < 0 || ioctl(*tun, TUNSETIFF, &request))
		fail("/dev/net/tun");
	namespace = open("/proc/self/ns/net", O_RDONLY);
	if (namespace < 0)
		fail("/proc/self/ns/net");
	return namespace;
}

static int is_lost(const struct record *record)
{
	int number = ++segments[record->way][record->port];

	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (int)(random_state % 1000000) < loss || (record->way == drop_way && number == drop_number);
}

// The number of the record of a data segment that isn't lost; -1 where the packet is none, -2 where it is lost.
static int look_at(const struct packet *packet, int way, int64_t time)
{
	const struct ip *ip = (const void *)packet->bytes;
	const struct tcphdr *tcp = (const void *)(packet->bytes + ip->ip_hl * 4);
	struct record record = {.way = way, .taken = time};

	if (ip->ip_v != 4 || ip->ip_p != IPPROTO_TCP)
		return -1;
	record.port = ntohs(way == TO_SERVER ? tcp->th_sport : tcp->th_dport);
	record.length = ntohs(ip->ip_len) - ip->ip_hl * 4 - tcp->th_off * 4;
	record.sequence = ntohl(tcp->th_seq);
	if (tcp->th_flags & TH_SYN)
		segments[way][record.port] = 0;
	if (!record.length || recorded == KEPT)
		return -1;
	records[recorded++] = record;
	return is_lost(&record) ? -2 : recorded - 1;
}

static void take_in(int way)
{
	struct queue *queue = &queues[way];

	while (queue->behind - queue->first < ROOM) {
		struct packet *packet = &queue->packets[queue->behind % ROOM];
		int64_t time;

		packet->length = read(device[way], packet->bytes, MTU);
		if (packet->length <= 0)
			return;
		time = now();
		packet->record = look_at(packet, way, time);
		packet->due = time + delay;
		if (packet->record != -2)
			queue->behind++;
	}
}

// Delivers what is due, and returns when the next packet is.
static int64_t deliver(int way)
{
	struct queue *queue = &queues[way];

	for (; queue->first != queue->behind; queue->first++) {
		struct packet *packet = &queue->packets[queue->first % ROOM];
		int64_t time = now();

		if (packet->due > time)
			return packet->due;
		if (packet->record >= 0)
			records[packet->record].delivered = time;
		if (write(device[!way], packet->bytes, packet->length) < 0 && errno != EIO) // EIO: the device is down
			fail("write");
	}
	return INT64_MAX;
}

static void print_records(void)
{
	for (int each = 0; each < recorded; each++) {
		const struct record *record = &records[each];

		printf("%d %d %u %d %lld %lld\n", record->way, record->port, record->sequence, record->length,
		        (long long)record->taken, (long long)record->delivered);
	}
	recorded = 0;
}

static void obey(void)
{
	char line[128];
	long long wanted;

	if (!fgets(line, sizeof(line), stdin))
		exit(0);
	if (sscanf(line, "set %lld %d %lu", &wanted, &loss, &random_state) == 3)
		delay = wanted;
	else if (!strcmp(line, "log\n"))
		print_records();
	else if (sscanf(line, "drop %d %d", &drop_way, &drop_number) != 2)
		exit(2);
	printf("\n");
	fflush(stdout);
}

// Sleeps until there is something to read or it is time; the last moments awake.
static void rest_until(int64_t due)
{
	struct pollfd files[] = {{device[0], POLLIN, 0}, {device[1], POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
	int64_t left = due == INT64_MAX ? 3600 * SECOND : due - now() - SPIN_NS;
	struct timespec time = {0};

	if (left > 0)
		time = (struct timespec){left / SECOND, left % SECOND};
	if (ppoll(files, 3, &time, NULL) > 0 && files[2].revents)
		obey();
}

int main(void)
{
	struct sched_param first = {.sched_priority = 50};
	int server = new_end(&device[TO_CLIENT]), client = new_end(&device[TO_SERVER]);

	// So that it is late by no more than it must: before all other processes, or at least with exact timers.
	if (sched_setscheduler(0, SCHED_FIFO, &first))
		prctl(PR_SET_TIMERSLACK, 1);
	setvbuf(stdin, NULL, _IONBF, 0);
	printf("ready %d %d\n", server, client);
	fflush(stdout);
	for (;;) {
		int64_t due[WAYS];

		for (int way = 0; way < WAYS; way++) {
			take_in(way);
			due[way] = deliver(way);
		}
		rest_until(due[0] < due[1] ? due[0] : due[1]);
	}
}
