/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The one definition of every record, key and configuration word that the kernel side and user space share. Fixed-width
 * types, explicit padding. python/ssllatency/abi.py is generated from it by way of the object's BTF (make abi).
 */
#ifndef SSLLATENCY_H
#define SSLLATENCY_H

/*
 * Exponential histogram at scale 4, on the grid of seconds: bucket i holds 10^9 * 2^(i/16) < v <= 10^9 * 2^((i+1)/16), v in
 * nanoseconds. The first kept bucket starts at 2^-24 s, 59.6 ns, the last one ends at 64 s.
 */
enum ssll_geometry {
	SSLL_SCALE = 4,
	SSLL_FIRST_BUCKET = -384,
	SSLL_BUCKETS = 480,
	SSLL_LINE = 8,            /* buckets */
	SSLL_LINEAR_BUCKETS = 64, /* the most a user can ask for; below the minimum and at or above the maximum come on top */
	SSLL_REASONS = 32,
	SSLL_COMM = 16,
	SSLL_OPERATIONS = 256,  /* the most in one run */
	SSLL_EXTREME_BITS = 42, /* of an extreme's word; above them lies the interval's number */
};

/*
 * How the functions of a stack tell that they failed. What its functions return when they succeed depends on what they do, as
 * enum ssll_convention says for each.
 */
enum ssll_returns {
	SSLL_RETURNS_OPENSSL = 0,        /* in a way of each function's own: enum ssll_convention alone tells it */
	SSLL_RETURNS_NEGATIVE_ERROR = 1, /* int; < 0 the error's code; 0 success, of SSLL_SSL_IO the peer has closed */
	SSLL_RETURNS_GO_ERROR = 2,       /* word of an interface: 0 no error, whatever else is returned */
};

/*
 * What a function does, and with SSLL_RETURNS_OPENSSL what its return value means. After the SSL_* ones that did not succeed
 * the reason is looked for (rwstate, the BIO's flags); the others only fail.
 */
enum ssll_convention {
	SSLL_SSL_HANDSHAKE = 1, /* int; 1 success */
	SSLL_SSL_IO = 2,        /* int; > 0 success, the number of bytes */
	SSLL_SSL_EX = 3,        /* int; >= 1 success (SSL_READ_EARLY_DATA_FINISH is 2) */
	SSLL_SSL_SHUTDOWN = 4,  /* int; 1 both directions closed, 0 ours sent: success */
	SSLL_LENGTH = 5,        /* int; >= 0 success, the number of bytes; -1 failure */
	SSLL_POSITIVE = 6,      /* int; > 0 success */
	SSLL_ONE = 7,           /* int; 1 success */
	SSLL_POINTER = 8,       /* pointer; not NULL success */
	SSLL_MBX8 = 9,          /* mbx_status: 4 bits a lane, 8 lanes; 0 success, bit 1 a lane not used */
	SSLL_NONE = 11,         /* void, or a value whose meaning is not known: nothing tells how a call ended */
};

enum ssll_outcome {
	SSLL_SUCCESS = 0,
	SSLL_FAILURE = 1,
	SSLL_RETRY = 2,
	SSLL_CLOSED = 3,  /* the peer has closed in good order */
	SSLL_UNKNOWN = 4, /* it has returned, and nothing tells how */
};

/* What a call that is to be made again waits for, in words that all stacks share: what the kernel side decides by. */
enum ssll_wait {
	SSLL_WAIT_NONE = 0,        /* it has succeeded, or failed */
	SSLL_WAIT_PEER = 1,        /* bytes of the peer's */
	SSLL_WAIT_WINDOW = 2,      /* the peer taking bytes */
	SSLL_WAIT_CONNECTION = 3,  /* what it reads from and writes to being connected, or accepting a connection */
	SSLL_WAIT_OFFLOAD = 4,     /* an operation that is done elsewhere */
	SSLL_WAIT_APPLICATION = 5, /* what one of the application's callbacks is still to say */
	SSLL_WAIT_LOOKUP = 6,      /* a session or a certificate that the application looks up */
	SSLL_WAIT_HANDSHAKE = 7,   /* the handshake going on in another way: anew, elsewhere, without early data */
	SSLL_WAIT_UNKNOWN = 8,
	SSLL_WAITS = 9,
};

/* How a call ended that neither succeeded nor is to be made again. */
enum ssll_end {
	SSLL_END_NONE = 0,      /* none did: a handshake was freed */
	SSLL_END_ERROR = 1,     /* an error of the protocol or the library, or one that isn't known */
	SSLL_END_TRANSPORT = 2, /* what it reads from and writes to has failed, or ended without a close_notify */
	SSLL_END_CLOSED = 3,    /* by the peer, in good order */
};

/*
 * The stacks' own names for why a call did not succeed, which people are shown; nothing is decided by them. From UNKNOWN on
 * SSL_ERROR_* of openssl/ssl.h and what OpenResty's patch adds, BoringSSL's from 16 on.
 */
enum ssll_reason {
	SSLL_REASON_UNKNOWN = 0,
	SSLL_REASON_SSL = 1,
	SSLL_REASON_WANT_READ = 2,
	SSLL_REASON_WANT_WRITE = 3,
	SSLL_REASON_WANT_X509_LOOKUP = 4,
	SSLL_REASON_SYSCALL = 5,
	SSLL_REASON_ZERO_RETURN = 6,
	SSLL_REASON_WANT_CONNECT = 7,
	SSLL_REASON_WANT_ACCEPT = 8,
	SSLL_REASON_WANT_ASYNC = 9,
	SSLL_REASON_WANT_ASYNC_JOB = 10,
	SSLL_REASON_WANT_CLIENT_HELLO_CB = 11,
	SSLL_REASON_WANT_RETRY_VERIFY = 12,
	SSLL_REASON_WANT_SESSION_LOOKUP = 13,
	SSLL_REASON_PENDING_SESSION = 16,
	SSLL_REASON_PENDING_CERTIFICATE = 17,
	SSLL_REASON_WANT_PRIVATE_KEY_OPERATION = 18,
	SSLL_REASON_PENDING_TICKET = 19,
	SSLL_REASON_EARLY_DATA_REJECTED = 20,
	SSLL_REASON_WANT_CERTIFICATE_VERIFY = 21,
	SSLL_REASON_HANDOFF = 22,
	SSLL_REASON_HANDBACK = 23,
	SSLL_REASON_WANT_RENEGOTIATE = 24,
	SSLL_REASON_HANDSHAKE_HINTS_READY = 25,
	SSLL_REASON_APPLICATION_INPUT = 26,
	SSLL_REASON_EARLY_DATA = 27,
	SSLL_REASON_NONE = 31, /* functions that have no reason to give */
};

enum ssll_side {
	SSLL_ANY = 0,
	SSLL_SERVER = 1,
	SSLL_CLIENT = 2,
};

/* The cookie of a probe site, from the lowest bit up. */
enum ssll_cookie {
	SSLL_COOKIE_OPERATION = 0,  /* 8 bits: index of the operation in this run's plan */
	SSLL_COOKIE_CONVENTION = 8, /* 4 bits: enum ssll_convention */
	SSLL_COOKIE_REGISTER =
	        12, /* 5 bits: the machine's number of the register that holds the return value; may_cross_again() */
	SSLL_COOKIE_SHARED = 17,    /* 1 bit: the exit is reached without the entry, too */
	SSLL_COOKIE_SKIP_NULL = 18, /* 3 bits: 1 + index of the argument that is NULL in a size query; 0 none */
	SSLL_COOKIE_SSL = 21,       /* 1 bit: the first argument is the SSL * */
	SSLL_COOKIE_HIT = 22,       /* 2 bits: enum ssll_hit, in the cookies of all kinds of sites */
	SSLL_COOKIE_LIBRARY = 24,   /* 8 bits: index into libraries */
	SSLL_COOKIE_STACK = 32,     /* 16 bits: stack pointer at the function's entry minus that at the site, bytes */
	SSLL_COOKIE_CONDITION = 48, /* 4 bits: of an exit site on x86-64's jcc, the lowest 4 bits of its opcode */
	SSLL_COOKIE_TAKEN = 52,     /* 4 bits: enum ssll_exit, of an exit site whose condition holds */
	SSLL_COOKIE_OTHER = 56,     /* 4 bits: enum ssll_exit, of one whose condition doesn't */
	SSLL_COOKIE_TIER = 60,      /* 2 bits: enum ssll_tier */
	SSLL_COOKIE_RETURNS = 62,   /* 2 bits: enum ssll_returns */
};

/* In place of some of these, in the cookie of an exit in what a Go function defers, whose frame is above the site. */
enum ssll_deferred_cookie {
	SSLL_DEFERRED_COOKIE_COUNT_AT =
	        12, /* 5 bits: words from the stack pointer up to the slot of the number that is returned */
	SSLL_DEFERRED_COOKIE_ERROR_BEHIND = 18, /* 4 bits: words from there up to that of the error */
};

/* Functions that are watched in windows together where tracing would cost too much, the first of them first. */
enum ssll_tier {
	SSLL_TIER_DATA = 0,      /* reads and writes: many, and each of little interest */
	SSLL_TIER_BELOW = 1,     /* what handshakes consist of */
	SSLL_TIER_HANDSHAKE = 2, /* handshakes themselves, and what the programs need to know of an SSL */
};

/* What lies where in ssll_counters.shut, above a bit for each tier of which no call is taken in. */
enum ssll_shut {
	SSLL_SHUT_TIMES = 8, /* how often what is below handshakes was taken in again */
};

/* What the kernel does at a hit, which decides what it costs. */
enum ssll_hit {
	SSLL_HIT_EMULATED = 0,
	SSLL_HIT_SINGLE_STEPPED = 1,
	SSLL_HIT_OPTIMISED = 2,
	SSLL_HIT_RETURN = 3, /* of a return probe, on the way back */
	SSLL_HITS = 4,
};

/*
 * Tables by process have fewer slots than there are PIDs. PIDs that differ in these lowest bits only have slots of their own;
 * which others share one is a secret of the run, so that nobody gets another's slot by choosing a PID.
 */
enum ssll_process_slot {
	SSLL_PROCESS_SLOT_BITS = 10,
	SSLL_PROCESS_SLOTS = 1024,
};

/*
 * Hits are counted by processor, by the process's slot, and by kind. Each processor has SSLL_PROCESS_SLOTS entries of its own
 * in the map, so that none waits for another's cache line. User space hears of a load that comes at once: after the first so
 * many hits of one entry and kind, and then after each so many; sooner a few handshakes at once would pass for a load.
 */
enum ssll_hit_table {
	SSLL_HITS_FIRST_NOTICE = 4096,
	SSLL_HITS_A_NOTICE = 8192, /* a power of two */
};

struct ssll_hits {
	__u64 of_kind[SSLL_HITS];
};

/* What an exit site tells of the return value. */
enum ssll_exit {
	SSLL_EXIT_IN_REGISTER = 0,
	SSLL_EXIT_GOES_ON = 1,  /* the call isn't left in this direction */
	SSLL_EXIT_CONSTANT = 4, /* of the value 0; 2 to 15 are -2 to 11 */
};

/*
 * Calls that run are kept by (process, stack pointer at entry, operation), which is right across fibers and threads. They lie
 * in a table of SSLL_STARTS slots. A slot's number comes from the lowest bits of the stack pointer, mixed with the rest of the
 * key; the rest, in the slot's tag, therefore tells the whole key. A call takes the first free of SSLL_WAYS slots, and the hash
 * map behind them where all are taken or the stack lies beyond 2^48. In that map the processes of one slot have room for
 * SSLL_SHARE calls, so that no process takes all of it.
 */
enum ssll_table {
	SSLL_TABLE_BITS = 14,
	SSLL_STARTS = 16384,
	SSLL_WAYS = 4,
	SSLL_OVERFLOW = 16384,
	SSLL_SHARE = 12288,
};

/*
 * Which side an SSL is on is looked up in its memory once, which takes longer than all else at a call's end, and remembered in
 * a table of SSLL_SIDES words until it is freed. As with the table above, the word's place and its bits together tell the
 * process and the SSL. Bit 63 is set; the others from the lowest up:
 */
enum ssll_side_table {
	SSLL_SIDE_BITS = 12,
	SSLL_SIDES = 4096,
	SSLL_SIDE_SSL = 0,     /* 32 bits: the address from bit 16 on */
	SSLL_SIDE_TGID = 32,   /* 22 bits */
	SSLL_SIDE_SERVER = 62, /* 1 bit */
};

/*
 * Calls of Go functions that run are kept by (process, goroutine), those of one goroutine in a stack: a goroutine runs on any
 * thread, and its stack moves. What tells its frames apart is how far they are from the top of the goroutine's stack, which
 * stays as it is. The processes of one slot have room for SSLL_GOROUTINE_SHARE goroutines with calls that run.
 */
enum ssll_goroutine_table {
	SSLL_GOROUTINES = 65536,
	SSLL_GOROUTINE_SHARE = 49152,
	SSLL_FRAMES = 8, /* calls within each other; a power of two */
};

/* The tag of a slot in use, from the lowest bit up; bit 63 is set. A free slot's is 0. */
enum ssll_tag {
	SSLL_TAG_WAY = 0,        /* 2 bits */
	SSLL_TAG_STACK = 2,      /* 31 bits: the stack pointer from bit 17 on */
	SSLL_TAG_TGID = 33,      /* 22 bits */
	SSLL_TAG_OPERATION = 55, /* 8 bits */
};

/* The traced processes are a set of bits by PID, of which there are at most 2^22: 64 in a word. */
enum ssll_target {
	SSLL_TARGET_WORDS = 65536,
};

struct ssll_targets {
	__u64 kin;     /* named by PID, or descended from such a process */
	__u64 members; /* of the wanted name or in the wanted cgroup, or forked from such a process */
};

/*
 * A call of C while it runs. The flow that it belongs to is a stack, of a thread or of a fiber that moves between threads, and
 * how deep in it is the stack pointer: so one address tells both. A goroutine's stack moves: see ssll_goroutine_key and
 * ssll_frame.
 */
struct ssll_start_key {
	__u64 stack; /* the stack pointer at the function's entry */
	__u32 tgid;
	__u32 operation;
};

struct ssll_start {
	__u64 tag;
	__u64 began_ns;
	__u64 ssl;
};

/* The flow that calls of Go belong to; each call's depth is in its frame. */
struct ssll_goroutine_key {
	__u64 goroutine; /* the address of the runtime's g */
	__u32 tgid;
	__u32 pad;
};

/* A call of a Go function that runs. */
struct ssll_frame {
	__u64 began_ns;
	__u64 connection; /* the first argument */
	__u32 depth;      /* the top of the goroutine's stack minus the stack pointer at the function's entry, bytes */
	__u16 operation;
	__u16 tier;
};

/* The calls of a goroutine that run, the outermost first. */
struct ssll_goroutine {
	__u64 left_ns; /* when a panic or runtime.Goexit last began to leave frames; 0 never */
	__u32 count;
	__u32 pad;
	struct ssll_frame frames[SSLL_FRAMES];
};

struct ssll_series_key {
	__u32 tgid; /* 0: processes folded into "other" */
	__u16 operation;
	__u16 outcome;
};

/*
 * Durations, counted. Their number is the sum of the exponential counts. An extreme's word is the number of the interval above
 * SSLL_EXTREME_BITS, then the value (the minimum: all ones minus it), so that each is a maximum and a new interval starts it
 * anew; two of each, for odd and even intervals. Of `lines` a bit is set for each SSLL_LINE buckets in which something was
 * counted: nobody has to look for the few among the many.
 */
struct ssll_times {
	__u64 exponential[SSLL_BUCKETS];
	__u64 underflow;
	__u64 overflow;
	__u64 total_ns;
	__u64 maximum[2];
	__u64 minimum[2];
	__u64 lines;
};

/* The calls of one function with one outcome in one process. */
struct ssll_series {
	struct ssll_times times;
	__u64 linear[SSLL_LINEAR_BUCKETS + 2];
	__u64 reasons[SSLL_REASONS];
};

struct ssll_process {
	char comm[SSLL_COMM];
};

/* The TLS stacks. */
enum ssll_stack {
#define SSLL_STACK(NUMBER, ...) SSLL_STACK_##NUMBER,
#include "stacks/list.bpf.h"
#undef SSLL_STACK
	SSLL_STACK_GO = 64, /* whose calls are judged by the error that they return, and aren't in the list */
};

/* Where an SSL keeps what a handshake is labelled by. The number is that of the path in ssll_library. */
enum ssll_place_of {
	SSLL_PLACE_OF_VERSION = 0,
	SSLL_PLACE_OF_CIPHER = 1,
	SSLL_PLACE_OF_RESUMED = 2,
	SSLL_PLACE_OF_GROUP_TLS13 = 3,
	SSLL_PLACE_OF_GROUP_SESSION = 4,
	SSLL_PLACE_OF_SIGNATURE = 5,
	SSLL_PLACE_OF_VERIFY_MODE = 6,
	SSLL_PLACE_OF_PEER_CERTIFICATE = 7,
	SSLL_PLACE_OF_HAND_STATE = 8,
	SSLL_PLACE_OF_IN_INIT = 9,
	SSLL_PLACE_OF_DID_KEX = 10, /* whether the connection agreed on a key of its own: then its group counts */
	SSLL_PLACE_OF_SERVER_NAME = 11,
	SSLL_PLACE_OF_SERVER_NAME_SESSION = 12, /* where it was resumed before TLS 1.3 */
	SSLL_PLACE_OF_ALPN = 13,
	SSLL_PLACE_OF_ALPN_LENGTH = 14,
	SSLL_PLACE_OF_BIO_TYPE = 15,
	SSLL_PLACE_OF_BIO_DESCRIPTOR = 16,
	SSLL_PLACE_OF_HELLO_RETRY = 17,
	SSLL_PLACE_OF_MAX_VERSION = 18, /* that this side allows, 0 any; */
	SSLL_PLACE_OF_OPTIONS = 19,     /* which may forbid more */
	SSLL_PLACE_OF_ALERT = 20,       /* the last one that was received, of GnuTLS */
	SSLL_PLACE_OF_GROUP = 21,       /* where one place has it, of any version */
	SSLL_PLACE_OF_DESCRIPTOR = 22, /* that the library itself reads from; a number that is too large for one is a pointer */
	SSLL_PLACE_OF_SERVER_NAME_LENGTH = 23, /* bytes; of GnuTLS in the network's order */
	SSLL_PLACE_OF_CREDENTIALS = 24,        /* what the peer has proved itself by, of GnuTLS */
	SSLL_PLACE_OF_POLLED = 25,             /* what the runtime of Go waits by for the connection's socket */
	SSLL_PLACE_OF_CERTIFICATE = 26,        /* the ASN1_ENCODING in the X509 that a server serves, */
	SSLL_PLACE_OF_SIGNATURE_BITS = 27,     /* the ASN1_STRING in there that is its signature, */
	SSLL_PLACE_OF_CHAIN = 28,             /* and the STACK of those that go with it, where the application has given them */
	SSLL_PLACE_OF_CERTIFICATE_BYTES = 29, /* the address and the length of one that a library keeps as a whole */
	SSLL_PLACE_OF_PEER_DIGEST = 30,       /* whether a digest of the client's certificate is kept in its place */
	/* From what the function that signs is called with, the stack of certificates that are sent, or slots with one each; */
	SSLL_PLACE_OF_SENT_CERTIFICATES = 31,
	SSLL_PLACE_OF_FIRST_CERTIFICATE = 32, /* from the stack, the address and the length of the first of them, */
	SSLL_PLACE_OF_SENT_COUNT = 33,        /* and how many they are */
	SSLL_PLACE_OF_SENT_SLOT = 34,         /* which of the slots was chosen, from what that function is called with; */
	SSLL_PLACE_OF_NEXT_SLOT = 35,         /* from a slot, the next, */
	SSLL_PLACE_OF_SLOT_CERTIFICATES = 36, /* and its stack */
	/* From what the function that adds a server's transport parameters of QUIC is called with, where they are; */
	SSLL_PLACE_OF_QUIC_PARAMETERS = 37,
	SSLL_PLACE_OF_QUIC_PARAMETERS_LENGTH = 38, /* and how many bytes */
	SSLL_PLACE_OF_QUIC_FUNCTIONS = 39,         /* by which the program takes the library's messages, for QUIC; 0 none */
	/* By which a server's program chooses the protocol, where quiche is linked into it; 0 none. */
	SSLL_PLACE_OF_ALPN_FUNCTION = 40,
	SSLL_PLACES = 41,
};

/* The types of Go values that the kernel side knows, by the number of their hash in ssll_library. */
enum ssll_go_type {
	SSLL_GO_TYPE_TCP = 0,       /* *net.TCPConn */
	SSLL_GO_TYPE_LOCAL = 1,     /* *net.UnixConn */
	SSLL_GO_TYPE_PERMANENT = 2, /* *tls.permanentError, which holds another error */
	SSLL_GO_TYPE_NETWORK = 3,   /* *net.OpError, which does so as well */
	SSLL_GO_TYPE_ALERT = 4,     /* tls.alert */
	SSLL_GO_TYPE_DEADLINE = 5,  /* *poll.DeadlineExceededError */
	SSLL_GO_TYPE_CLOSED = 6,    /* poll.errNetClosing: the program itself has closed the connection */
	SSLL_GO_TYPE_TEXT = 7,      /* *errors.errorString */
	SSLL_GO_TYPE_HASH = 8,      /* crypto.Hash, of which one is how to sign, */
	SSLL_GO_TYPE_PSS = 9,       /* or a *rsa.PSSOptions */
	SSLL_GO_TYPES = 10,
};

/* Fields of records of Go's runtime and crypto/tls, by the number of their offset in ssll_library. */
enum ssll_go_field {
	SSLL_GO_FIELD_THREAD = 0,    /* in a goroutine's: the thread's (g.m) */
	SSLL_GO_FIELD_STOPS = 1,     /* how often it has stopped to run (g.trackingSeq) */
	SSLL_GO_FIELD_PROCESSOR = 2, /* in a thread's: the processor's (m.p) */
	SSLL_GO_FIELD_TURNS = 3,     /* in a processor's: how many slices of time it has begun (p.schedtick) */
	SSLL_GO_FIELD_CONFIG = 4,    /* in a connection: its Config's address, in which are functions of the application's: */
	SSLL_GO_FIELD_GET_CERTIFICATE = 5,
	SSLL_GO_FIELD_GET_CLIENT_CERTIFICATE = 6,
	SSLL_GO_FIELD_GET_CONFIG = 7,
	SSLL_GO_FIELD_VERIFY_PEER = 8,
	SSLL_GO_FIELD_VERIFY_CONNECTION = 9,
	SSLL_GO_FIELD_UNWRAP_SESSION = 10,
	SSLL_GO_FIELD_WRAP_SESSION = 11,
	SSLL_GO_FIELD_GET_ECH_KEYS = 12,
	SSLL_GO_FIELDS = 13,
};

/* The numbers that the code of an Mbed TLS shows, by their place in ssll_library; 0 not known. */
enum ssll_mbedtls_field {
	SSLL_MBEDTLS_FIELD_STATE = 0,         /* in a context: how far its handshake is, an int */
	SSLL_MBEDTLS_FIELD_OVER = 1,          /* what it is where that is over */
	SSLL_MBEDTLS_FIELD_CONFIGURATION = 2, /* in a context: the address of its configuration, which says the side */
	SSLL_MBEDTLS_FIELD_MAJOR = 3,         /* 3 from Mbed TLS 3.0 on, as far as codes have changed */
	SSLL_MBEDTLS_FIELD_SEND = 4,          /* in a context: the functions by which it writes and reads */
	SSLL_MBEDTLS_FIELD_RECEIVE = 5,
	SSLL_MBEDTLS_FIELD_RECEIVE_TIMEOUT = 6,
	SSLL_MBEDTLS_FIELD_NET_SEND = 7, /* from the first of them on: where the library's own ones for sockets lie */
	SSLL_MBEDTLS_FIELD_NET_RECEIVE = 8,
	SSLL_MBEDTLS_FIELD_NET_RECEIVE_TIMEOUT = 9,
};

/* The most steps from an SSL to a value. */
enum ssll_path_size {
	SSLL_PATH_LENGTH = 4,
};

/* A way from an SSL to a value: each offset but the last leads to a pointer. `length` 0: not known. */
struct ssll_path {
	__s32 offsets[SSLL_PATH_LENGTH];
	__u8 length;
	__u8 size;  /* of the value, bytes; 0: it is the address itself */
	__u16 bits; /* those of the value that count; 0: all */
};

/* A library: byte offsets in SSL and BIO, -1 where its accessors don't show one, and the ways to what labels handshakes. */
struct ssll_library {
	__s32 rwstate; /* s2n-tls: how far from the thread pointer its error lies */
	__s32 server;
	__s32 rbio;
	__s32 wbio;
	__s32 shutdown; /* s2n-tls: two numbers, up to where output is sent, and written; wolfSSL: its sides' steps */
	__s32 state;    /* of the handshake's message flow: 1 after a fatal error; s2n-tls: how many bytes were sent */
	__s32 bio_flags;
	__s32 typed;       /* 1: an int at offset 0 tells QUIC objects from connections (OpenSSL 3.2 and later) */
	__s32 remember;    /* 1: SSL_free is probed, so an SSL's side can be remembered as long as it lives */
	__s32 stack;       /* enum ssll_stack: in whose codes rwstate is, and what else differs */
	__s32 holder;      /* where the pointer to what holds rwstate lies; -1: it lies in SSL itself */
	__s32 server_bits; /* those of the word at `server` that count; 0: all */
	__s32 companion;   /* 1: its calls count only in processes that have called a library that isn't one */
	__s32 attached;    /* 1: at all its sites; until then calls end there that couldn't be seen to begin */
	__s32 deadline;    /* Go: the itab of the error of a deadline minus that of a *net.OpError; 0 not known */
	__s32 sent;        /* Go: where a connection keeps why it writes no more, as an alert that it sent; -1 not known */
	__s32 tells_ids;   /* 1: a site of it tells the IDs of a server's connections over QUIC */
	struct ssll_path paths[SSLL_PLACES]; /* by enum ssll_place_of; none where nothing is labelled */
	__u32 types[SSLL_GO_TYPES];          /* Go: the hash of each type, 0 where the program doesn't have it */
	__s32 fields[SSLL_GO_FIELDS];        /* Go: where records have each field, 0 where that isn't known; or of Mbed TLS */
};

/* What was missed; and, written by user space, the number of the interval that extremes belong to. */
struct ssll_counters {
	__u64 unmatched_entries;
	__u64 unmatched_exits;
	__u64 map_full;
	__u64 interval;
	__u64 events_dropped; /* for which a ring buffer had no room */
	__u64 stopped;        /* 1, written by user space: nothing is counted any more */
	__u64 shut;           /* written by user space: enum ssll_shut */
	__u64 left;           /* calls of Go functions that a panic or runtime.Goexit has left */
	__u64 dropped_ns[3];  /* written by user space, by tier: Go's calls that began before don't count any more */
	__u64 in_other;       /* calls that count in other_series */
};

/* Set once, before loading. */
struct ssll_config {
	__u64 linear_minimum_ns;
	__u64 linear_step_ns;
	__u32 linear_buckets;
	__u32 filter_tgid;       /* 1: only processes in the map targets */
	__u32 role;              /* enum ssll_side: which SSL objects count */
	__u32 linear_reciprocal; /* 2^32 / linear_step_ns, rounded down */
	__u32 companions;        /* 1: some library is a companion; `targets` has who has called the others */
	__u64 slot_secret;       /* an odd number, by which processes have their slots */
};

enum ssll_event_size {
	SSLL_EVENT_SIZE_SHORT = 64, /* without `who` */
};

/* One call that has ended, as `ssllatency snoop` shows it. */
struct ssll_event {
	__u64 ended_ns; /* CLOCK_MONOTONIC */
	__u64 duration_ns;
	__u64 returned; /* the whole register: how much of it means something depends on the convention */
	__s64 bytes;    /* read or written; -1 where that isn't known */
	__u32 tgid;
	__u32 tid;
	char comm[SSLL_COMM]; /* the thread's, at the end of the call */
	__u16 operation;
	__u8 outcome;
	__u8 reason;
	__u32 known;  /* of who shook hands, as in ssll_labels: 0 unless that is asked for and the call ends a handshake */
	__u32 who[4]; /* by enum ssll_label, from SNI on; not in the ring unless it is asked for */
};

/* Which calls become events; set once, before loading. */
struct ssll_event_filter {
	__u64 minimum_ns;
	__u64 wake_bytes; /* the reader is woken when so much waits in the ring */
	__u32 outcomes;   /* a bit for each of enum ssll_outcome */
	__u32 pad;
	__u8 length_argument[SSLL_OPERATIONS]; /* 1 + index of the size_t * through which a call says its bytes; 0 none */
};

_Static_assert(sizeof(struct ssll_targets) == 16, "targets");
_Static_assert(sizeof(struct ssll_start_key) == 16, "start key");
_Static_assert(sizeof(struct ssll_start) == 24, "start");
_Static_assert(sizeof(struct ssll_series_key) == 8, "series key");
_Static_assert(sizeof(struct ssll_times) == 8 * (SSLL_BUCKETS + 8), "times");
_Static_assert(
        sizeof(struct ssll_series) == sizeof(struct ssll_times) + 8 * (SSLL_LINEAR_BUCKETS + 2 + SSLL_REASONS), "series");
_Static_assert(sizeof(struct ssll_process) == 16, "process");
_Static_assert(sizeof(struct ssll_path) == 20, "path");
_Static_assert(sizeof(struct ssll_library) == 68 + 20 * SSLL_PLACES + 4 * SSLL_GO_TYPES + 4 * SSLL_GO_FIELDS, "library");
_Static_assert(sizeof(struct ssll_goroutine_key) == 16, "goroutine key");
_Static_assert(sizeof(struct ssll_frame) == 24, "frame");
_Static_assert(sizeof(struct ssll_goroutine) == 16 + 24 * SSLL_FRAMES, "goroutine");
_Static_assert(sizeof(struct ssll_counters) == 96, "counters");
_Static_assert(sizeof(struct ssll_config) == 48, "config");
_Static_assert(sizeof(struct ssll_hits) == 32, "hits");
_Static_assert(sizeof(struct ssll_event) == 80, "event");
_Static_assert(sizeof(struct ssll_event_filter) == 24 + SSLL_OPERATIONS, "event filter");

#endif
