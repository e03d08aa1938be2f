/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The records of `ssllatency handshakes`: what the kernel side keeps of each handshake, and what it hands to user space. */
#ifndef HANDSHAKE_H
#define HANDSHAKE_H

#include "ssllatency.h"

/*
 * What a handshake's time is split into. WALL = CALLS + the waits; CALLS = the phases + REST. ON_CPU and OFF_CPU split CALLS,
 * where that is known.
 *
 * A wait for the peer is WAIT_PEER until its bytes arrived and QUEUE_SERVER from then on; where it isn't known when they
 * arrived, all of it is WAIT_PEER_OR_SERVER. WAIT_HELLO and QUEUE_START lie before WALL: from the established connection until
 * the ClientHello arrived, and from then to the first call. A wait for an offload is WAIT_OFFLOAD until the
 * operation was completed, and QUEUE_OFFLOAD, a part of QUEUE_SERVER, from then on; where no completion was seen, all of it is
 * WAIT_OFFLOAD, and COMPLETION is that of the others. QUEUE = QUEUE_START + QUEUE_SERVER; QUEUE_HANDSHAKES to
 * QUEUE_ASLEEP say what the thread did meanwhile, where that is known; of Go, QUEUE_GOROUTINES is what the thread that comes
 * ran of its program meanwhile, so that no goroutine that was ready ran on it, but for QUEUE_COLLECTIONS, in which it marked
 * what a garbage collection is to keep. ROUND_TRIPS and LOSSES are parts of WAIT_PEER, OFF_CPU_RUNNABLE of OFF_CPU,
 * OFF_CPU_THROTTLED of OFF_CPU_RUNNABLE, REST_ASLEEP of REST, GONE of CALLS, and so are ASSISTS, whatever the phase: of Go, the
 * goroutine had to help a collection of garbage before it might allocate. CLIENT_WAIT = QUEUE_START + WALL, on a server.
 */
enum ssll_part {
	SSLL_PART_WALL = 0,
	SSLL_PART_CALLS = 1,
	SSLL_PART_PRIVATE_KEY = 2,
	SSLL_PART_KEY_EXCHANGE = 3,
	SSLL_PART_PEER_VERIFICATION = 4,
	SSLL_PART_SESSION_LOOKUP = 5,
	SSLL_PART_CALLBACKS = 6,
	SSLL_PART_REST = 7,
	SSLL_PART_WAIT_PEER = 8,
	SSLL_PART_WAIT_WINDOW = 9,
	SSLL_PART_WAIT_OFFLOAD = 10,
	SSLL_PART_WAIT_APPLICATION = 11,
	SSLL_PART_WAIT_UNKNOWN = 12,
	SSLL_PART_ON_CPU = 13,
	SSLL_PART_OFF_CPU = 14,
	SSLL_PART_OFFLOAD_COMPLETION = 15,
	SSLL_PART_QUEUE_OFFLOAD = 16,
	SSLL_PART_WAIT_HELLO = 17,
	SSLL_PART_QUEUE_START = 18,
	SSLL_PART_QUEUE_SERVER = 19,
	SSLL_PART_WAIT_PEER_OR_SERVER = 20,
	SSLL_PART_QUEUE_HANDSHAKES = 21,
	SSLL_PART_QUEUE_OTHER = 22,
	SSLL_PART_QUEUE_RUNNABLE = 23,
	SSLL_PART_QUEUE_THROTTLED = 24,
	SSLL_PART_QUEUE_ASLEEP = 25,
	SSLL_PART_ROUND_TRIPS = 26,
	SSLL_PART_QUEUE = 27,
	SSLL_PART_OFF_CPU_RUNNABLE = 28,
	SSLL_PART_REST_ASLEEP = 29,
	SSLL_PART_LOSSES = 30,
	SSLL_PART_GONE = 31,
	SSLL_PART_CLIENT_WAIT = 32,
	SSLL_PART_OFF_CPU_THROTTLED = 33,
	SSLL_PART_QUEUE_GOROUTINES = 34,
	SSLL_PART_QUEUE_COLLECTIONS = 35,
	SSLL_PART_ASSISTS = 36,
	SSLL_PARTS = 37,
};

/* What a row adds up of its handshakes beside their times. Those from FLIGHTS to GONE are of handshakes that SOCKET counts. */
enum ssll_fact {
	SSLL_FACT_SOCKET = 0, /* handshakes whose TCP socket was seen */
	SSLL_FACT_FLIGHTS = 1,
	SSLL_FACT_FLIGHT_BYTES = 2, /* of this side's largest flight */
	SSLL_FACT_UNSENT = 3,       /* handshakes with a flight of which a part waited for an acknowledgement */
	SSLL_FACT_RETRANSMITTED = 4,
	SSLL_FACT_RETRANSMISSIONS = 5,
	SSLL_FACT_GONE = 6, /* handshakes with a call that began after the peer had closed or reset */
	SSLL_FACT_HELLO_RETRY_KNOWN = 7,
	SSLL_FACT_HELLO_RETRIES = 8,
	SSLL_FACT_TICKETS_REFUSED = 9,
	SSLL_FACT_CACHE_MISSES = 10,
	SSLL_FACT_OFFERED = 11,  /* successful handshakes whose client is known to have offered a session */
	SSLL_FACT_UNPHASED = 12, /* handshakes of which only the private key's phase was watched all the time */
	SSLL_FACT_QUIC_RETRY_KNOWN = 13,
	SSLL_FACT_QUIC_RETRIES = 14, /* handshakes over QUIC whose client's address was validated by a Retry first */
	SSLL_FACTS = 15,
};

enum ssll_ending {
	SSLL_ENDING_SUCCESS = 0,
	SSLL_ENDING_FAILURE = 1,
	SSLL_ENDING_ABANDONED = 2,
	SSLL_ENDINGS = 3,
};

/*
 * The index of a label in ssll_labels.values, and its bit in `known`. Those before ROLE are read from the SSL, in this order;
 * those from SNI on tell who shook hands, and nothing of it is read unless it is asked for.
 */
enum ssll_label {
	SSLL_LABEL_VERSION = 0,
	SSLL_LABEL_CIPHER = 1,
	SSLL_LABEL_RESUMED = 2,
	SSLL_LABEL_GROUP = 3,
	SSLL_LABEL_SIGNATURE = 4,
	SSLL_LABEL_CLIENT_CERTIFICATE = 5,
	SSLL_LABEL_ROLE = 6,
	SSLL_LABEL_PROCESS = 7,
	SSLL_LABEL_SNI = 8,
	SSLL_LABEL_ALPN = 9,
	SSLL_LABEL_PORT = 10,
	SSLL_LABEL_PEER = 11,
	SSLL_LABELS = 12,
	SSLL_LABEL_OTHER = 31, /* beyond the bound on the number of rows, or of texts */
};

enum ssll_text_kind {
	SSLL_TEXT_KIND_SERVER_NAME = 0,
	SSLL_TEXT_KIND_PROTOCOL = 1,
	SSLL_TEXT_KIND_IPV4 = 2, /* `length` is that of the prefix, bits */
	SSLL_TEXT_KIND_IPV6 = 3,
	SSLL_TEXT_KIND_LOCAL = 4, /* the peer is on this machine: a Unix socket */
	SSLL_TEXT_LENGTH = 64,
};

/* What a label's number stands for, in the table of texts. What is beyond the text's end is 0. */
struct ssll_text {
	__u8 kind;
	__u8 length;
	__u8 cut; /* 1: it was longer */
	__u8 pad;
	__u8 bytes[SSLL_TEXT_LENGTH + 4]; /* room for one byte more and a zero byte, which tell whether it was longer */
};

/* Which of the labels from SNI on are asked for, a bit for each, and how much of a peer's address tells its network, in bits.
 */
struct ssll_who_config {
	__u32 labels;
	__u16 prefix4;
	__u16 prefix6;
};

enum ssll_client_certificate {
	SSLL_CLIENT_CERTIFICATE_NOT_ASKED = 0,
	SSLL_CLIENT_CERTIFICATE_NOT_GIVEN = 1,
	SSLL_CLIENT_CERTIFICATE_GIVEN = 2,
};

/* What a private key did, above the key's size in an ssll_key_use. */
enum ssll_key_operation {
	SSLL_KEY_OPERATION_NONE = 0,
	SSLL_KEY_OPERATION_SIGN = 1,
	SSLL_KEY_OPERATION_DECRYPT = 2,
};

/* The kind of private key that a function of Go's uses, which is in its first argument; in place of a signature algorithm in an
 * ssll_key_use. */
enum ssll_go_key {
	SSLL_GO_KEY_NONE = 0, /* any signer's */
	SSLL_GO_KEY_RSA = 1,
	SSLL_GO_KEY_ECDSA = 2,
	SSLL_GO_KEY_ED25519 = 3,
	SSLL_GO_KEY_SIGNED = 0xffff, /* in place of the code point of a signature scheme that isn't known */
};

/* The cookie of a phase's site, from the lowest bit up. That of a call is enum ssll_cookie's. */
enum ssll_phase_cookie {
	SSLL_PHASE_COOKIE_PART = 0,          /* 4 bits: enum ssll_part */
	SSLL_PHASE_COOKIE_SKIP_NULL = 4,     /* 3 bits: 1 + index of the argument that is NULL in a size query; 0 none */
	SSLL_PHASE_COOKIE_OPERATION = 7,     /* 2 bits: enum ssll_key_operation */
	SSLL_PHASE_COOKIE_SIZE = 9,          /* 3 bits: 1 + index of the argument that tells the key's size; 0 none */
	SSLL_PHASE_COOKIE_SIZE_POINTED = 12, /* 1 bit: it points to the size */
	SSLL_PHASE_COOKIE_CONDITION = 13,    /* 4 bits: the condition code of the branch at the site, as in its opcode */
	SSLL_PHASE_COOKIE_CONDITIONAL = 17,  /* 1 bit: the phase begins only where the branch … */
	SSLL_PHASE_COOKIE_TAKEN = 18,        /* 1 bit: … is taken (1) or not (0) */
	SSLL_PHASE_COOKIE_TICKET = 19,       /* 1 bit: it is no phase of its own, but tells that there is a ticket */
	SSLL_PHASE_COOKIE_CACHE = 20,        /* 1 bit: the session lookup looks in the cache */
	SSLL_PHASE_COOKIE_OPENS = 21,        /* 1 bit: the session lookup opens a ticket */
	SSLL_PHASE_COOKIE_KEY = 24,          /* 2 bits: enum ssll_go_key */
	SSLL_PHASE_COOKIE_ASSIST = 26,       /* 1 bit: it is no phase: a goroutine may have to help a collection of garbage */
	SSLL_PHASE_COOKIE_INNER = 27,        /* 1 bit: it is no phase of its own, but tells what kind of key one uses */
	SSLL_PHASE_COOKIE_STACK = SSLL_COOKIE_STACK, /* 16 bits */
};

/* The cookie of a site that raises an error. */
enum ssll_error_cookie {
	/* 3 bits: index of the argument that holds the reason, or the alert; the first holds the library, or the connection */
	SSLL_ERROR_COOKIE_REASON = 0,
	SSLL_ERROR_COOKIE_FATAL = 3,    /* 1 bit: it sends an alert */
	SSLL_ERROR_COOKIE_LEVELLED = 4, /* 1 bit: of the level that its second argument says */
};

/* Where in an error word the library's number and the reason lie. */
enum ssll_error {
	SSLL_ERROR_LIBRARY = 24,
	SSLL_ERROR_REASON_BITS = 24,
	SSLL_ERROR_LIBRARY_SSL = 20, /* ERR_LIB_SSL */
	SSLL_ERROR_LIBRARY_BORINGSSL = 16,
	SSLL_ERROR_LIBRARY_GNUTLS = 1, /* it has no numbers of libraries, */
	SSLL_ERROR_LIBRARY_GO = 2,     /* nor has Go, whose reasons are enum ssll_go_reason, */
	SSLL_ERROR_LIBRARY_S2N = 100,  /* nor have these: numbers that OpenSSL has for none of its own */
	SSLL_ERROR_LIBRARY_MBEDTLS = 101,
	SSLL_ERROR_LIBRARY_WOLFSSL = 102,
};

/* The reason in a Go program's error word, beside the hash of the error's type, or of its text. */
enum ssll_go_reason {
	SSLL_GO_REASON_TEXT_SIZE = 32, /* bytes of the text that its hash is of; crypto/tls' own begin with "tls: " */
	SSLL_GO_REASON_ALERT = 1000,   /* that was received, from this number on */
	SSLL_GO_REASON_SENT = 2000,    /* that this side sent, from this number on, where the error is no more than that */
	SSLL_GO_REASON_HASH = (1 << 21) - 1,
	SSLL_GO_REASON_TYPE = 1 << 22,
	SSLL_GO_REASON_TEXT = 1 << 22 | 1 << 21,
};

enum ssll_flag {
	SSLL_FLAG_ADMITTED = 1 << 0, /* known to be on the side that is asked for */
	SSLL_FLAG_PARTIAL = 1 << 1,  /* it was under way already when its first call was seen */
	SSLL_FLAG_ENDED = 1 << 2,    /* it failed, and only SSL_free tells that its SSL won't shake hands again */
	SSLL_FLAG_ALERT_SENT = 1 << 3,
	SSLL_FLAG_UNATTRIBUTED = 1 << 4, /* the calls moved between threads: the phases can't be told, */
	SSLL_FLAG_UNSPLIT = 1 << 5,      /* nor time on and off the processor */
	SSLL_FLAG_UNPHASED = 1 << 6,     /* in a part of its calls phases weren't watched, but for the private key's */
	SSLL_FLAG_SLEPT = 1 << 7,        /* a call has slept, and it isn't known what for */
	SSLL_FLAG_RETURNS = 1 << 8,      /* a call has come back to wait for the peer or its window, so none sleeps for that */
	SSLL_FLAG_BLOCKED = 1 << 9,      /* the last read or write has slept */
	SSLL_FLAG_NONBLOCKING = 1 << 10, /* a call has come back to wait though its last read or write had not */
	SSLL_FLAG_BOUNDED = 1 << 11,    /* the first bytes to arrive weren't all that were read, so a wait's split is a bound */
	SSLL_FLAG_SEVERAL = 1 << 12,    /* bytes came more than once in the last wait, first those up to arrived_seq */
	SSLL_FLAG_TICKET = 1 << 13,     /* the client sent a ticket, which was looked at */
	SSLL_FLAG_CACHE = 1 << 14,      /* a session was looked up in the server's cache */
	SSLL_FLAG_FED = 1 << 15,        /* the application reads the socket itself and hands the bytes to the library */
	SSLL_FLAG_DISOWNED = 1 << 16,   /* what its thread reads isn't its, or its calls followed reads of different sockets */
	SSLL_FLAG_UNSENT = 1 << 17,     /* a part of a flight waited for an acknowledgement, */
	SSLL_FLAG_UNSENT_NOW = 1 << 18, /* of the last one */
	SSLL_FLAG_LOST = 1 << 19,       /* the connection had losses while the handshake waited */
	SSLL_FLAG_GONE = 1 << 20,       /* a call began after the peer had closed or reset the connection, */
	SSLL_FLAG_GONE_NOW = 1 << 21,   /* the one that runs */
	SSLL_FLAG_RETRY_KNOWN = 1 << 22,      /* it is known whether a HelloRetryRequest was sent, */
	SSLL_FLAG_RETRY = 1 << 23,            /* and it was */
	SSLL_FLAG_AWAITS_ANSWER = 1 << 24,    /* this side has sent a flight that the peer hasn't answered yet */
	SSLL_FLAG_GOROUTINE = 1 << 25,        /* a goroutine's, which any thread may run */
	SSLL_FLAG_CHOSEN = 1 << 26,           /* `chosen` holds the certificate, as a function of the library's has it */
	SSLL_FLAG_QUIC_RETRY_KNOWN = 1 << 27, /* it is known whether a server of QUIC had sent its client a Retry, */
	SSLL_FLAG_QUIC_RETRY = 1 << 28,       /* and it had */
	SSLL_FLAG_PEER = 1 << 29,             /* from here on 3 bits: of a handshake that was freed, enum ssll_peer */
};

/* What is known of the other end where a handshake is freed before it is over: bits. */
enum ssll_peer {
	SSLL_PEER_KNOWN = 1 << 0,
	SSLL_PEER_LEFT = 1 << 1,        /* it had closed or reset its connection before this side did either */
	SSLL_PEER_UNDELIVERED = 1 << 2, /* it had sent bytes since the library's last call, so the library never got them */
};

/* The values of a handshake's labels, 0 where they aren't known or not asked for. Of SNI, ALPN and PEER the number of a text; 0
 * where there is none. */
struct ssll_labels {
	__u32 known;               /* a bit for each label that is */
	__u32 values[SSLL_LABELS]; /* by enum ssll_label; of ROLE 1 for a server, of PROCESS the tgid */
	__u16 library;             /* whose names the codes have */
	__u8 ending;
	__u8 pad;
};

/* The sizes of tables of which user space sets none. */
enum ssll_table_size {
	SSLL_OPEN_CALLS = 16384,
	SSLL_EXCESS_CALLS = 4096,
	SSLL_CAUSES = 1024,
	SSLL_KEYS = 256,
	SSLL_MIX = 1024,
	SSLL_COMBINATIONS = 512,
	SSLL_POLLERS = 1024,
};

/*
 * The tables of which one process may fill most, but not all, so that it leaves room for others. What it has beyond its share
 * of the first two lies in a table for such, where it only pushes out what is as much too many. The processes of
 * one slot (enum ssll_process_slot) have one share.
 */
enum ssll_shared {
	SSLL_SHARED_HANDSHAKES = 0,
	SSLL_SHARED_CALLS = 1,
	SSLL_SHARED_ROWS = 2,
	SSLL_SHARED_CAUSES = 3,
	SSLL_SHARED_KEYS = 4,
	SSLL_SHARED_MIX = 5,
	SSLL_SHARED_POLLERS = 6,
	SSLL_SHARED_TEXTS = 7,
	SSLL_SHARED_CERTIFICATES = 8,
	SSLL_SHARED_SERVED = 9,
	SSLL_SHARED_COMBINATIONS = 10,
	SSLL_SHARED_TABLES = 11,
};

/* How many entries a process has in each of them: now in the first two; of the others, whose entries stay, how many it made. */
struct ssll_holding {
	__u64 entries[SSLL_SHARED_TABLES];
};

struct ssll_handshake_key {
	__u64 ssl;
	__u32 tgid;
	__u32 pad;
};

/* The labels that its socket tells, of a handshake that goes on. */
struct ssll_endpoint {
	__u32 known; /* as in ssll_labels */
	__u32 port;
	__u32 peer;
};

/* The UDP ports at which a process has received from anybody, since it was seen to serve over QUIC. */
struct ssll_datagrams {
	__u64 since_ns;
	__u32 port;    /* the first one; 0: none so far */
	__u32 several; /* 1: there is another */
	__u32 tells;   /* 1: its handshakes tell the IDs of their connections, so that what it sends is looked at */
	__u32 pad;
};

enum ssll_quic_size {
	SSLL_QUIC_ID_BYTES = 20, /* of a connection ID, at most: RFC 9000, 17.2 */
};

/* A connection ID that a server of QUIC has chosen for itself. What is beyond its length is 0. */
struct ssll_quic_id {
	__u32 tgid;
	__u8 length;
	__u8 bytes[SSLL_QUIC_ID_BYTES];
	__u8 pad[3];
};

/* The ID that a handshake goes by. `began_ns`: of the handshake, which no later one of the same SSL has. */
struct ssll_quic_name {
	__u64 began_ns;
	struct ssll_quic_id id;
	__u32 pad;
};

/* Where the first packet with such an ID has gone: its `port` is this side's, 0: none has yet. `began_ns` comes first, and so
 * is read last. */
struct ssll_quic_peer {
	__u64 began_ns;
	struct ssll_endpoint endpoint;
	__u32 pad;
};

/* Operations that the plan of a run doesn't number, as cookies of calls have them. */
enum ssll_operation {
	SSLL_OPERATION_FREE = 253,          /* what frees an SSL: only its entry has a site, for at_exit */
	SSLL_OPERATION_PAUSE = 254,         /* ASYNC_pause_job, which comes back when its job goes on */
	SSLL_OPERATION_STATE_MACHINE = 255, /* that all of OpenSSL's handshakes go through, within whatever call */
};

/* One handshake while it runs. `since_ns` is the last border between a call and a wait. */
struct ssll_handshake {
	__u64 began_ns;
	__u64 since_ns;
	__u64 phase_since_ns;
	__u64 phase_stack;          /* stack pointer at entry of the function in which the open phase began */
	__u64 outer_stack;          /* the same of the phase that the open one interrupts; 0: of none */
	__u64 completed_ns;         /* since the last call began; 0: no completion was seen */
	__u64 blocked_off_ns;       /* off the processor in reads and writes that count as waits, and so not in OFF_CPU, */
	__u64 blocked_delay_ns;     /* ready to run meanwhile, */
	__u64 blocked_throttled_ns; /* and held by a CPU quota */
	union {
		/* Stack pointer at entry of the state machine, where no call around it is watched; else 0. */
		__u64 machine_stack;
		/* Of Go and BoringSSL: the number of the certificate that it serves, how many go with it, and their bytes. */
		__u64 chosen;
	};
	__u64 unsplit_since_ns; /* when the wait before the call that runs began, if it isn't split; else 0 */
	__u64 socket;           /* that it waits on: the kernel's address of it; 0: not known */
	__u64 assist_since_ns;  /* of Go: when its goroutine began to help a collection of garbage; 0: it doesn't */
	__u64 parts[SSLL_PARTS];
	__u32 calls;
	__u32 pauses;
	__u32 depth; /* of calls inside one another; 0 while it waits */
	__u32 flags;
	__u32 error; /* the first that says most, of the call that runs or ran last; 0 none */
	__u32 key_bytes;
	__u8 waiting; /* the part that waits now */
	__u8 phase;   /* the part that is open now, 0 none */
	__u8 alert;
	__u8 key_operation;
	__u16 library;
	__u16 flights;
	__u32 arrived_seq;
	__u32 written_seq;  /* behind the last byte of this side's flights so far */
	__u32 flight_bytes; /* of the largest of them */
	__u32 segments;     /* that this side has sent of data, at that byte */
	__u32 losses;       /* of the connection so far: segments sent again or received out of order */
	__u32 resent;       /* the same, those sent again alone */
	__u32 retransmissions;
	__u32 watch;           /* of what is below handshakes, when the call began: bits of counters.shut */
	__u32 wake_descriptor; /* that its offload wakes the application by, where that is known */
	__u8 key_kind;         /* enum ssll_go_key */
	__u8 outer_phase;      /* of Go: the part that the open phase interrupts, if there is an outer_stack */
	__u16 signature;       /* of Go and BoringSSL: the scheme's code point, 0 not known */
};

/* A thread's clocks at a border between its calls and what lies around them. Of the scheduler's, `ahead_ns` goes on while the
 * thread is off the processor. */
struct ssll_border {
	__u64 at_ns; /* 0: not known */
	__u64 ahead_ns;
	__u64 run_ns;
	__u64 delay_ns;
	__u64 throttled_ns;
	__u32 switches;
	__u32 processor;
};

/* How long a thread was off the processor. */
struct ssll_away {
	__u64 off_ns;
	__u64 delay_ns;     /* the part of it in which the thread was ready to run */
	__u64 throttled_ns; /* the part of that in which a CPU quota held it */
};

/* A call that runs, by its place on the stack. `outer` is the SSL whose call it was made in. */
struct ssll_open_call {
	__u64 ssl;
	__u64 outer;
};

/* The slot of one, in a table as that of `trace` (enum ssll_table). */
struct ssll_call_slot {
	__u64 tag;
	struct ssll_open_call call;
};

/* The clocks of a thread at one moment, ns since its start. Those of the scheduler may lag by a tick while it runs. */
struct ssll_clocks {
	__u64 busy_ns;      /* in calls of handshakes, but for what it waited for a processor in them */
	__u64 collected_ns; /* the same in collections of garbage */
	__u64 run_ns;       /* on a processor */
	__u64 delay_ns;     /* runnable without one, held by a CPU quota included */
	__u64 throttled_ns; /* that quotas held its control groups, on all processors */
	__u64 sleeps;       /* how often it gave up the processor by itself, */
	__u64 switches;     /* or at all */
	__u32 tid;          /* 0: the thread isn't known */
	__u32 is_off;       /* 1: it was on no processor */
};

/* What tells, at one moment, whether a goroutine keeps its thread from then on. */
struct ssll_turn {
	__u64 processor;   /* the address of the runtime's record of it; 0: not known */
	__u64 stack_bytes; /* how large the goroutine's stack is */
	__u32 turns;       /* how many slices of time the processor has begun */
	__u8 stops;        /* how often the goroutine has stopped to run, modulo 256 */
	__u8 pad[3];
};

/* A thread's innermost call that belongs to a handshake, and what the thread did in it. */
struct ssll_thread {
	__u64 ssl;
	__u64 sleeps;            /* those by itself that the kernel had counted when it was last asked */
	__u64 busy_ns;           /* that it worked in calls of handshakes, up to the last one that ended */
	__u64 busy_since_ns;     /* when the outermost call that runs began; 0: none runs */
	__u64 run_delay_ns;      /* the thread's run_delay then */
	__u64 collected_ns;      /* that it worked in collections of garbage, up to the last time that it was done with it */
	__u64 collects_since_ns; /* when it began to; 0: it doesn't */
	__u64 collect_delay_ns;  /* the thread's run_delay then, */
	__u64 collect_watch;     /* and watch_below() */
	struct ssll_border call; /* where the call began, or its last wait ended */
	struct ssll_border phase;
	struct ssll_away away;     /* in the call, but for its waits; up to `call` */
	struct ssll_away phases;   /* in its phases */
	struct ssll_clocks clocks; /* as they stood when it was last asked */
	__u64 read_socket;         /* from which it has read outside of calls since the last one; all ones: from several */
	struct ssll_turn turn;     /* of the goroutine whose handshake's call began at `call` */
	__u64 speaks_quic;         /* 1: it has ended a handshake over QUIC of a library that doesn't tell it before */
};

/*
 * What has arrived at a socket, by its address in the kernel. `ssl` and `since_ns`: the handshake that waits for it, and since
 * when; of a connection whose handshake hasn't begun, 0. `arrived_ns`: the first arrival since then, 0 for none.
 */
struct ssll_arrival {
	__u64 ssl;
	__u64 since_ns;
	__u64 established_ns; /* 0: not seen */
	__u64 arrived_ns;
	__u64 last_ns; /* the last arrival since then */
	__u64 arrivals;
	__u64 task; /* the kernel's address of the thread that is expected to come for it */
	__u32 tid;
	__u32 seq;                 /* behind the last byte of the first arrival */
	struct ssll_clocks clocks; /* of that thread when it arrived */
	__u32 is_read;             /* 1: something has been read of it before its handshake began, */
	__u32 is_late;             /* 1: and more arrived after that */
	__u32 given_seq;           /* behind the last byte that was read when the wait began */
	__u32 sent_seq;            /* behind the peer's last byte when one of the ends was the first to leave */
	__u32 left;                /* enum ssll_left */
	__u32 is_renewed;          /* 1: the socket was made another connection's, by this side, since */
};

/* Which end of a connection was the first to leave it. */
enum ssll_left {
	SSLL_LEFT_NONE = 0, /* neither was seen to */
	SSLL_LEFT_BY_PEER = 1,
	SSLL_LEFT_BY_OWNER = 2,
};

struct ssll_sample {
	__u64 at_ns;
	struct ssll_clocks clocks;
};

enum ssll_history_size {
	SSLL_SAMPLES = 16, /* of one ring */
	SSLL_RINGS = 3,    /* each reaches four times as far back as the one before */
	SSLL_WORKERS = 16, /* of one port */
};

struct ssll_ring {
	__u32 made;
	__u32 pad;
	struct ssll_sample samples[SSLL_SAMPLES];
};

/* A thread's clocks at moments in the past. */
struct ssll_history {
	__u64 task; /* the kernel's address of it */
	struct ssll_ring rings[SSLL_RINGS];
};

/* The threads that have begun handshakes at a server's port, the last ones. */
struct ssll_workers {
	__u32 made;
	__u32 tids[SSLL_WORKERS];
};

/* `begun` counts whatever is counted in the row before any of it is there, `changes` once all of it is: where the latter, read
 * before the rest, is the former, read after it, all that was read is of the same handshakes. Of the successful handshakes of
 * the row: how many were resumed, of so many of which that is known. */
struct ssll_handshake_row {
	struct ssll_times parts[SSLL_PARTS];
	__u64 begun;
	__u64 changes;
	__u64 resumed;
	__u64 resumption_known;
	__u64 facts[SSLL_FACTS];
};

/* The library's state of a handshake, as SSL_get_state returns it, where that isn't known. */
enum ssll_state {
	SSLL_STATE_UNKNOWN = 0xffff,
};

/* The keys of what is counted beside the times. `tgid`: whose handshakes they were, where its row is of this process alone;
 * else 0. */
struct ssll_cause_key {
	__u32 error;
	__u16 state;
	__u16 library;
	__u8 ending;
	__u8 end; /* enum ssll_end */
	__u8 alert;
	__u8 sent;
	__u32 tgid;
	__u32 peer; /* enum ssll_peer */
};

struct ssll_key_use {
	__u32 tgid;
	__u32 bytes;
	__u16 signature;
	__u8 operation;
	__u8 library;
};

struct ssll_tally {
	__u64 count;
	__u64 total_ns;
};

struct ssll_mix_key {
	__u32 tgid;
	__u16 label;
	__u16 library;
	__u64 value;
};

/* The labels before ROLE of a successful handshake, counted together: `known` as in ssll_labels. What finds no room is counted
 * label by label, by the key above. */
struct ssll_combination_key {
	__u32 tgid;
	__u16 library;
	__u16 known;
	__u32 values[SSLL_LABEL_ROLE];
};

/* One handshake by itself, for those slower than `threshold_ns`. */
struct ssll_single {
	__u64 ended_ns;
	__u64 parts[SSLL_PARTS];
	struct ssll_labels labels;
	struct ssll_cause_key cause;
	__u32 tgid;
	__u32 tid;
	__u32 calls;
	__u32 pauses;
	__u32 unphased; /* 1: as enum ssll_flag has it */
	char comm[SSLL_COMM];
};

enum ssll_certificate_size {
	SSLL_CERTIFICATE_TELLING_BYTES = 32,
	SSLL_CERTIFICATES_OF_PROCESS = 768,
	SSLL_SERVED_OF_PROCESS = 1536,
	SSLL_CERTIFICATE_MOST_BYTES = 8192, /* that are handed over; of a longer one none are */
	SSLL_CERTIFICATES = 16384,          /* and as many places where they are served, of all processes */
};

/* What one certificate is told from another by: the end of its signature, and the length of that, or of all. */
struct ssll_certificate_key {
	__u32 tgid;
	__u32 signature_length;
	__u8 signature[SSLL_CERTIFICATE_TELLING_BYTES];
};

/* A certificate, the first time that a process is seen to serve it: what was signed of it, as it came, or all of it. */
struct ssll_certificate {
	__u32 number;
	__u32 length;           /* of what was signed, or of all; of what is longer than the room here, nothing is */
	__u32 signature_length; /* bytes, of the signature itself; 0: it is in there, as all of the certificate is */
	__u32 pad;
	__u8 bytes[SSLL_CERTIFICATE_MOST_BYTES];
};

/* Where a certificate was served: `name` is the number of the text that the client asked for, as in ssll_labels. */
struct ssll_served_key {
	__u32 tgid;
	__u32 certificate; /* its number */
	__u32 name;
	__u16 port;       /* this side's; 0: not known */
	__u16 name_known; /* 1: `name` is, and 0 then means that the client asked for none */
};

/* How often it was, in full handshakes, and of the last time `chain`: how many certificates went with it, -1 not known, and
 * `chain_bytes`: the bytes of those, 0 not known. */
struct ssll_served {
	__u64 last_ns;
	__u64 count;
	__u64 unsuccessful; /* those of them that didn't succeed */
	__s32 chain;
	__u32 chain_bytes;
};

enum ssll_batch {
	SSLL_BATCH_LANES = 8,
};

struct ssll_batch_key {
	__u32 operation;
	__u32 lanes;
};

struct ssll_poller {
	__u64 completions;
	__u32 tgid;
	__u32 pad;
	char comm[SSLL_COMM];
};

struct ssll_handshake_counters {
	__u64 created;
	__u64 ended;
	__u64 events_dropped;
	__u64 unattributed;
	__u64 unsplit;
	__u64 partial;
	__u64 pauses;
	__u64 paused; /* handshakes that had any */
	__u64 unseen;
	__u64 software;
	__s64 waiting_offload;
	__u64 most_waiting_offload;
	__u64 slept;              /* handshakes that slept before reads and writes were watched */
	__u64 watches_transport;  /* written by user space: 1 where they are */
	__u64 threshold_ns;       /* written by user space: handshakes whose client waited so long are handed over one by one */
	__u64 within_data;        /* calls of tier DATA in which a handshake was begun or went on */
	__u64 bounded;            /* handshakes of which a wait's split is a bound */
	__u64 watches_arrivals;   /* written by user space: 1 where it is told when bytes arrive */
	__u64 watches_reads_ns;   /* written by user space: since when it is told what threads read; 0: it isn't */
	__u64 watches_transfers;  /* written by user space: 1 where it is told what receives and sends return */
	__u64 transfers_since_ns; /* written by user space: since when it has been so, ~0 while it isn't; 0: always */
	__u64 without_socket;     /* handshakes of servers of which no socket is known */
	__u64 slept_of_go;        /* handshakes that `slept` counts, of goroutines */
	__u64 watches_datagrams_ns; /* written by user space: since when it is told what is received; 0: it isn't */
	__u64 without_port;         /* handshakes of servers over QUIC whose port wasn't known, nor would packets tell it */
	__u64 over_quic;            /* handshakes of servers over QUIC, whose library may tell IDs of connections */
	__u64 watches_packets_ns;   /* written by user space: since when it is told what is sent; 0: it isn't, 1: it can't be */
	__u64 ahead_since_ns;       /* since when the next is the least distance from the scheduler's clock to this one, */
	__u64 ahead_ns;             /* which is a little more where the thread had run for a little, */
	__u64 ahead_before_ns;      /* and that of the time before */
	__u64 calls_spilled;        /* 1: a call has found no slot, so what isn't in one may lie in the table behind them */
	__u64 excess_used; /* 1: a process has more than its share, so what isn't found may lie in the tables for such */
	__u64 unexplained; /* handshakes that failed, of which no error of the library's own was seen */
	__u64 untold;      /* handshakes whose certificate isn't told, for want of room */
	__u64 inspections; /* connections that quiche has made only to look into a ClientHello */
};

struct ssll_handshake_config {
	struct ssll_labels mask; /* all ones in what tells rows apart */
	__u32 most_handshakes;   /* that one process may have in flight in the table of all */
	__u32 most_rows;         /* that one process may make */
	__u32 most_texts;        /* the same */
	__u32 certificates;      /* 1: those that servers serve are looked at */
};

_Static_assert(sizeof(struct ssll_labels) == 56, "labels");
_Static_assert(sizeof(struct ssll_text) == 72, "text");
_Static_assert(sizeof(struct ssll_who_config) == 8, "who config");
_Static_assert(sizeof(struct ssll_endpoint) == 12, "endpoint");
_Static_assert(sizeof(struct ssll_datagrams) == 24, "datagrams");
_Static_assert(sizeof(struct ssll_quic_id) == 28, "quic id");
_Static_assert(sizeof(struct ssll_quic_name) == 40, "quic name");
_Static_assert(sizeof(struct ssll_quic_peer) == 24, "quic peer");
_Static_assert(sizeof(struct ssll_handshake_key) == 16, "handshake key");
_Static_assert(sizeof(struct ssll_handshake) == 104 + 8 * SSLL_PARTS + 72, "handshake");
_Static_assert(sizeof(struct ssll_call_slot) == 24, "call slot");
_Static_assert(sizeof(struct ssll_clocks) == 64, "clocks");
_Static_assert(sizeof(struct ssll_border) == 48, "border");
_Static_assert(sizeof(struct ssll_turn) == 24, "turn");
_Static_assert(sizeof(struct ssll_arrival) == 152, "arrival");
_Static_assert(sizeof(struct ssll_sample) == 72, "sample");
_Static_assert(sizeof(struct ssll_cause_key) == 20, "cause key");
_Static_assert(sizeof(struct ssll_key_use) == 12, "key use");
_Static_assert(sizeof(struct ssll_mix_key) == 16, "mix key");
_Static_assert(sizeof(struct ssll_combination_key) == 32, "combination key");
_Static_assert(sizeof(struct ssll_single) == 8 + 8 * SSLL_PARTS + 56 + 20 + 20 + SSLL_COMM, "single");
_Static_assert(sizeof(struct ssll_holding) == 88, "holding");
_Static_assert(sizeof(struct ssll_certificate_key) == 40, "certificate key");
_Static_assert(sizeof(struct ssll_certificate) == 16 + SSLL_CERTIFICATE_MOST_BYTES, "certificate");
_Static_assert(sizeof(struct ssll_served_key) == 16, "served key");
_Static_assert(sizeof(struct ssll_served) == 32, "served");
_Static_assert(sizeof(struct ssll_handshake_counters) == 280, "handshake counters");
_Static_assert(sizeof(struct ssll_handshake_config) == 72, "handshake config");

#endif
