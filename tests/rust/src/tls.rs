// SPDX-License-Identifier: Apache-2.0
//! What the server needs of libssl, declared once for both libraries, and the context with its callbacks.

use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_int, c_uint, c_void, CString};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::Mutex;
use std::{fs, ptr, thread, time};

#[cfg(feature = "aws-lc")]
extern crate aws_lc_sys as _;
#[cfg(feature = "boringssl")]
extern crate boring_sys as _;

pub enum Ssl {}
pub enum SslCtx {}

pub const WANT_READ: i32 = 2;
pub const WANT_WRITE: i32 = 3;
pub const POLLIN: i16 = 1;
pub const POLLOUT: i16 = 4;
const PEM: c_int = 1;
const VERIFY_PEER: c_int = 1;
const FLOW_OK: c_int = 0; // ssl_verify_ok, ssl_private_key_success
const KEY_RETRY: c_int = 1;
const KEY_FAILED: c_int = 2;
const VERIFY_RETRY: c_int = 2;
const SELECT_OK: c_int = 1;
const SELECT_RETRY: c_int = 0;
const NO_TICKET: u32 = 0x4000;
const SERVER_WITHOUT_INTERNAL_CACHE: c_int = 0x302;
const DELAY: time::Duration = time::Duration::from_millis(4);

#[repr(C)]
pub struct PollFd {
    pub fd: c_int,
    pub events: i16,
    pub revents: i16,
}

type Sign = extern "C" fn(*mut Ssl, *mut u8, *mut usize, usize, u16, *const u8, usize) -> c_int;
type Decrypt = extern "C" fn(*mut Ssl, *mut u8, *mut usize, usize, *const u8, usize) -> c_int;
type Complete = extern "C" fn(*mut Ssl, *mut u8, *mut usize, usize) -> c_int;

type SelectProtocol = extern "C" fn(*mut Ssl, *mut *const u8, *mut u8, *const u8, c_uint, *mut c_void) -> c_int;
type TicketKey = extern "C" fn(*mut Ssl, *mut u8, *mut u8, *mut c_void, *mut c_void, c_int) -> c_int;
type GetSession = extern "C" fn(*mut Ssl, *const u8, c_int, *mut c_int) -> *mut c_void;

#[repr(C)]
struct PrivateKeyMethod {
    sign: Sign,
    decrypt: Decrypt,
    complete: Complete,
}

extern "C" {
    pub fn poll(fds: *mut PollFd, number: usize, timeout_ms: c_int) -> c_int;
    pub fn SSL_new(context: *mut SslCtx) -> *mut Ssl;
    pub fn SSL_free(ssl: *mut Ssl);
    pub fn SSL_set_fd(ssl: *mut Ssl, fd: c_int) -> c_int;
    pub fn SSL_accept(ssl: *mut Ssl) -> c_int;
    pub fn SSL_connect(ssl: *mut Ssl) -> c_int;
    pub fn SSL_read(ssl: *mut Ssl, buffer: *mut c_void, size: c_int) -> c_int;
    pub fn SSL_write(ssl: *mut Ssl, buffer: *const c_void, size: c_int) -> c_int;
    pub fn SSL_shutdown(ssl: *mut Ssl) -> c_int;
    pub fn SSL_get_error(ssl: *const Ssl, returned: c_int) -> c_int;
    fn TLS_method() -> *const c_void;
    fn SSL_CTX_new(method: *const c_void) -> *mut SslCtx;
    fn SSL_CTX_use_certificate_chain_file(context: *mut SslCtx, file: *const c_char) -> c_int;
    fn SSL_CTX_use_PrivateKey_file(context: *mut SslCtx, file: *const c_char, kind: c_int) -> c_int;
    fn SSL_CTX_load_verify_locations(context: *mut SslCtx, file: *const c_char, folder: *const c_char) -> c_int;
    fn SSL_CTX_set_private_key_method(context: *mut SslCtx, method: *const PrivateKeyMethod);
    fn SSL_CTX_set_select_certificate_cb(context: *mut SslCtx, callback: extern "C" fn(*const c_void) -> c_int);
    fn SSL_CTX_set_cert_cb(context: *mut SslCtx, callback: extern "C" fn(*mut Ssl, *mut c_void) -> c_int, argument: *mut c_void);
    fn SSL_CTX_set_custom_verify(context: *mut SslCtx, mode: c_int, callback: extern "C" fn(*mut Ssl, *mut u8) -> c_int);
    fn SSL_CTX_set_tlsext_servername_callback(context: *mut SslCtx, callback: extern "C" fn(*mut Ssl, *mut c_int, *mut c_void) -> c_int) -> c_int;
    fn SSL_CTX_set_alpn_select_cb(context: *mut SslCtx, callback: SelectProtocol, argument: *mut c_void);
    fn SSL_CTX_set_tlsext_ticket_key_cb(context: *mut SslCtx, callback: TicketKey) -> c_int;
    fn SSL_CTX_set_options(context: *mut SslCtx, options: u32) -> u32;
    fn SSL_CTX_set_session_cache_mode(context: *mut SslCtx, mode: c_int) -> c_int;
    fn SSL_CTX_sess_set_new_cb(context: *mut SslCtx, callback: extern "C" fn(*mut Ssl, *mut c_void) -> c_int);
    fn SSL_CTX_sess_set_get_cb(context: *mut SslCtx, callback: GetSession);
    fn EVP_aes_128_cbc() -> *const c_void;
    fn EVP_EncryptInit_ex(cipher: *mut c_void, kind: *const c_void, engine: *mut c_void, key: *const u8, iv: *const u8) -> c_int;
    fn EVP_DecryptInit_ex(cipher: *mut c_void, kind: *const c_void, engine: *mut c_void, key: *const u8, iv: *const u8) -> c_int;
    fn HMAC_Init_ex(hmac: *mut c_void, key: *const c_void, length: usize, hash: *const c_void, engine: *mut c_void) -> c_int;
    fn BIO_new_mem_buf(bytes: *const c_void, length: isize) -> *mut c_void;
    fn PEM_read_bio_PrivateKey(bio: *mut c_void, key: *mut *mut c_void, asked: *const c_void, word: *const c_void) -> *mut c_void;
    fn EVP_sha256() -> *const c_void;
    fn EVP_MD_CTX_new() -> *mut c_void;
    fn EVP_MD_CTX_free(digest: *mut c_void);
    fn EVP_DigestSignInit(digest: *mut c_void, key: *mut *mut c_void, hash: *const c_void, engine: *mut c_void, key: *mut c_void) -> c_int;
    fn EVP_DigestSign(digest: *mut c_void, signature: *mut u8, length: *mut usize, data: *const u8, size: usize) -> c_int;
}

static METHOD: PrivateKeyMethod = PrivateKeyMethod { sign, decrypt, complete };

// A connection is served by a thread of its own, so what it has put off is the thread's.
thread_local! {
    static PUT_OFF: Cell<c_uint> = const { Cell::new(0) };
    static TO_SIGN: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}
static KEY: std::sync::OnceLock<usize> = std::sync::OnceLock::new();

/// Nothing has been put off yet by this thread's connection.
pub fn begin_connection() {
    PUT_OFF.set(0);
}

/// Whether a step is to be put off: the first time.
fn first_time(step: c_uint) -> bool {
    let seen = PUT_OFF.get();
    PUT_OFF.set(seen | 1 << step);
    seen & 1 << step == 0
}

extern "C" fn select_certificate(_hello: *const c_void) -> c_int {
    if first_time(0) { SELECT_RETRY } else { SELECT_OK }
}

extern "C" fn certificate(_ssl: *mut Ssl, _argument: *mut c_void) -> c_int {
    if first_time(1) { -1 } else { 1 }
}

extern "C" fn verify(_ssl: *mut Ssl, _alert: *mut u8) -> c_int {
    if first_time(2) { VERIFY_RETRY } else { FLOW_OK }
}

extern "C" fn sign(_ssl: *mut Ssl, _out: *mut u8, _length: *mut usize, _most: usize, _algorithm: u16, data: *const u8, size: usize) -> c_int {
    TO_SIGN.set(unsafe { std::slice::from_raw_parts(data, size) }.to_vec());
    KEY_RETRY
}

extern "C" fn decrypt(_ssl: *mut Ssl, _out: *mut u8, _length: *mut usize, _most: usize, _data: *const u8, _size: usize) -> c_int {
    KEY_FAILED
}

extern "C" fn complete(_ssl: *mut Ssl, out: *mut u8, length: *mut usize, most: usize) -> c_int {
    let data = TO_SIGN.take();
    unsafe {
        let (digest, key) = (EVP_MD_CTX_new(), *KEY.get().unwrap() as *mut c_void);
        *length = most;
        let signed = EVP_DigestSignInit(digest, ptr::null_mut(), EVP_sha256(), ptr::null_mut(), key) == 1
            && EVP_DigestSign(digest, out, length, data.as_ptr(), data.len()) == 1;
        EVP_MD_CTX_free(digest);
        if signed { FLOW_OK } else { KEY_FAILED }
    }
}

// Callbacks that take their time, and are counted by name.

static CALLED: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());
static SESSION: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut()); // the newest one

/// How often each callback has been called.
pub fn called() -> BTreeMap<&'static str, u64> {
    CALLED.lock().unwrap().clone()
}

fn take_time(name: &'static str) {
    *CALLED.lock().unwrap().entry(name).or_default() += 1;
    thread::sleep(DELAY);
}

extern "C" fn slow_select(_hello: *const c_void) -> c_int {
    take_time("select_certificate_cb");
    SELECT_OK
}

extern "C" fn slow_certificate(_ssl: *mut Ssl, _argument: *mut c_void) -> c_int {
    take_time("cert_cb");
    1
}

extern "C" fn slow_name(_ssl: *mut Ssl, _alert: *mut c_int, _argument: *mut c_void) -> c_int {
    take_time("servername_cb");
    0
}

extern "C" fn slow_protocol(_ssl: *mut Ssl, out: *mut *const u8, length: *mut u8, offered: *const u8, _size: c_uint, _argument: *mut c_void) -> c_int {
    take_time("alpn_select_cb");
    unsafe {
        *length = *offered;
        *out = offered.add(1);
    }
    0
}

extern "C" fn slow_ticket_key(_ssl: *mut Ssl, name: *mut u8, iv: *mut u8, cipher: *mut c_void, hmac: *mut c_void, encrypts: c_int) -> c_int {
    take_time(if encrypts == 1 { "ticket_key_cb sealing" } else { "ticket_key_cb opening" });
    let key = [7u8; 16];
    unsafe {
        if encrypts == 1 {
            ptr::write_bytes(name, 1, 16);
            ptr::write_bytes(iv, 2, 16);
            EVP_EncryptInit_ex(cipher, EVP_aes_128_cbc(), ptr::null_mut(), key.as_ptr(), iv);
        } else {
            EVP_DecryptInit_ex(cipher, EVP_aes_128_cbc(), ptr::null_mut(), key.as_ptr(), iv);
        }
        HMAC_Init_ex(hmac, key.as_ptr().cast(), key.len(), EVP_sha256(), ptr::null_mut())
    }
}

extern "C" fn slow_new(_ssl: *mut Ssl, session: *mut c_void) -> c_int {
    take_time("new_session_cb");
    SESSION.store(session, Ordering::Relaxed);
    1
}

extern "C" fn slow_get(_ssl: *mut Ssl, _id: *const u8, _length: c_int, copy: *mut c_int) -> *mut c_void {
    take_time("get_session_cb");
    unsafe { *copy = 1 };
    SESSION.load(Ordering::Relaxed)
}

/// The server's context with callbacks that take their time: those that know sessions by tickets, or else by their ids.
pub fn slow_context(certificate_file: &str, key_file: &str, tickets: bool) -> *mut SslCtx {
    let context = context(certificate_file, key_file, None);
    unsafe {
        SSL_CTX_set_select_certificate_cb(context, slow_select);
        SSL_CTX_set_cert_cb(context, slow_certificate, ptr::null_mut());
        SSL_CTX_set_tlsext_servername_callback(context, slow_name);
        SSL_CTX_set_alpn_select_cb(context, slow_protocol, ptr::null_mut());
        if tickets {
            SSL_CTX_set_tlsext_ticket_key_cb(context, slow_ticket_key);
        } else {
            SSL_CTX_set_options(context, NO_TICKET);
            SSL_CTX_set_session_cache_mode(context, SERVER_WITHOUT_INTERNAL_CACHE);
            SSL_CTX_sess_set_new_cb(context, slow_new);
            SSL_CTX_sess_set_get_cb(context, slow_get);
        }
    }
    context
}

/// A client's context, which takes any server's certificate, and has its own where `pair` names one and its key.
pub fn client_context(pair: Option<(&str, &str)>) -> *mut SslCtx {
    let name = |file: &str| CString::new(file).unwrap();
    unsafe {
        let context = SSL_CTX_new(TLS_method());
        if let Some((certificate_file, key_file)) = pair {
            assert_eq!(SSL_CTX_use_certificate_chain_file(context, name(certificate_file).as_ptr()), 1);
            assert_eq!(SSL_CTX_use_PrivateKey_file(context, name(key_file).as_ptr(), PEM), 1);
        }
        context
    }
}

/// The server's context; with a `client_ca` it puts off what can be put off.
pub fn context(certificate_file: &str, key_file: &str, client_ca: Option<&str>) -> *mut SslCtx {
    let name = |file: &str| CString::new(file).unwrap();
    unsafe {
        let context = SSL_CTX_new(TLS_method());
        assert_eq!(SSL_CTX_use_certificate_chain_file(context, name(certificate_file).as_ptr()), 1);
        let Some(file) = client_ca else {
            assert_eq!(SSL_CTX_use_PrivateKey_file(context, name(key_file).as_ptr(), PEM), 1);
            return context;
        };
        let pem = fs::read(key_file).unwrap();
        let bio = BIO_new_mem_buf(pem.as_ptr().cast(), pem.len() as isize);
        KEY.set(PEM_read_bio_PrivateKey(bio, ptr::null_mut(), ptr::null(), ptr::null()) as usize).unwrap();
        assert_eq!(SSL_CTX_load_verify_locations(context, name(file).as_ptr(), ptr::null()), 1);
        SSL_CTX_set_private_key_method(context, &METHOD);
        SSL_CTX_set_select_certificate_cb(context, select_certificate);
        SSL_CTX_set_cert_cb(context, certificate, ptr::null_mut());
        SSL_CTX_set_custom_verify(context, VERIFY_PEER, verify);
        context
    }
}
