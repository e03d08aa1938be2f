// SPDX-License-Identifier: Apache-2.0
//! A TLS server on s2n-tls: usage: server CERTIFICATE KEY blocking|nonblocking|later|large. And a client: server connect PORT TIMES,
//! which trusts everybody, and begins at a line of its input.
//!
//! The server listens on a free port of the loopback address and prints "port N". For each line of its input, once no connection is
//! open, it prints as a line of JSON how its calls ended, by function: "success", "closed", what a call waits for that is to be made
//! again, or the name of the error, behind "S2N_ERR_"; and under "handshakes" what was negotiated. A negotiation that fails is called
//! once more, as is one that succeeds. With "later" it doesn't block, and the private key's operation is put off once; with "large"
//! neither, and its responses have some megabytes. The client makes so many connections, one after the other, each with a request and
//! its response, and prints such a line.

use s2n_tls_sys::*;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::io::BufRead;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::raw::{c_int, c_short, c_ulong, c_void};
use std::sync::{Arc, Condvar, Mutex};
use std::time::SystemTime;
use std::{env, fs, io, ptr, thread};

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const LARGE: usize = 8 << 20;
const POLLIN: c_short = 1;
const POLLOUT: c_short = 4;

#[repr(C)]
struct PollFd {
    fd: c_int,
    events: c_short,
    revents: c_short,
}

extern "C" {
    fn poll(fds: *mut PollFd, number: c_ulong, timeout_ms: c_int) -> c_int;
}

#[derive(Default)]
struct Books {
    open: usize,
    rows: BTreeMap<&'static str, BTreeMap<String, u64>>,
}

#[derive(Default)]
struct Shared {
    books: Mutex<Books>,
    closed: Condvar,
}

thread_local! {
    static PUT_OFF: Cell<*mut s2n_async_pkey_op> = const { Cell::new(ptr::null_mut()) };
}

struct Connection {
    s2n: *mut s2n_connection,
    socket: TcpStream,
    shared: Arc<Shared>,
}

fn text(of: *const std::os::raw::c_char) -> String {
    if of.is_null() {
        return "none".to_string();
    }
    unsafe { CStr::from_ptr(of) }.to_str().unwrap().to_string()
}

impl Connection {
    fn new(mode: s2n_mode::Type, config: usize, socket: TcpStream, blocking: bool, shared: Arc<Shared>) -> Connection {
        socket.set_nonblocking(!blocking).unwrap();
        socket.set_nodelay(true).unwrap();
        unsafe {
            let s2n = s2n_connection_new(mode);
            assert!(!s2n.is_null());
            assert_eq!(s2n_connection_set_config(s2n, config as *mut s2n_config), 0);
            assert_eq!(s2n_connection_set_fd(s2n, socket.as_raw_fd()), 0);
            s2n_connection_set_blinding(s2n, s2n_blinding::SELF_SERVICE_BLINDING); // or it would sleep for seconds
            Connection { s2n, socket, shared }
        }
    }

    /// Calls again until it succeeds or fails for good; what it returned, -1 where it has failed.
    fn call(&self, name: &'static str, function: impl Fn(*mut s2n_connection, *mut s2n_blocked_status::Type) -> isize) -> isize {
        loop {
            let mut blocked = s2n_blocked_status::NOT_BLOCKED;
            let returned = function(self.s2n, &mut blocked);
            if returned >= 0 {
                self.count(name, if name == "s2n_recv" && returned == 0 { "closed" } else { "success" });
                return returned;
            }
            let code = unsafe { *s2n_errno_location() };
            if unsafe { s2n_error_get_type(code) } != s2n_error_type::BLOCKED as c_int {
                self.count(name, text(unsafe { s2n_strerror_name(code) }).trim_start_matches("S2N_ERR_"));
                return -1;
            }
            match blocked {
                s2n_blocked_status::BLOCKED_ON_READ => self.wait(name, "WANT_READ", POLLIN),
                s2n_blocked_status::BLOCKED_ON_WRITE => self.wait(name, "WANT_WRITE", POLLOUT),
                _ => self.use_key(name),
            }
        }
    }

    fn count(&self, name: &'static str, ending: &str) {
        *self.shared.books.lock().unwrap().rows.entry(name).or_default().entry(ending.to_string()).or_default() += 1;
    }

    /// The operation that was put off.
    fn use_key(&self, name: &'static str) {
        self.count(name, "APPLICATION_INPUT");
        thread::sleep(std::time::Duration::from_millis(2));
        let operation = PUT_OFF.replace(ptr::null_mut());
        unsafe {
            let key = s2n_cert_chain_and_key_get_private_key(s2n_connection_get_selected_cert(self.s2n));
            assert_eq!(s2n_async_pkey_op_perform(operation, key), 0);
            assert_eq!(s2n_async_pkey_op_apply(operation, self.s2n), 0);
            s2n_async_pkey_op_free(operation);
        }
    }

    fn wait(&self, name: &'static str, what: &str, events: c_short) {
        self.count(name, what);
        let mut one = PollFd { fd: self.socket.as_raw_fd(), events, revents: 0 };
        unsafe { poll(&mut one, 1, 20_000) };
    }

    fn negotiate(&self) -> bool {
        self.call("s2n_negotiate", |s2n, blocked| unsafe { s2n_negotiate(s2n, blocked) } as isize) == 0
    }

    fn receive(&self) -> bool {
        let mut piece = [0u8; 4096];
        let room = piece.as_mut_ptr();
        self.call("s2n_recv", |s2n, blocked| unsafe { s2n_recv(s2n, room.cast(), 4096, blocked) }) > 0
    }

    fn send(&self, mut message: &[u8]) -> bool {
        while !message.is_empty() {
            let (bytes, length) = (message.as_ptr().cast::<c_void>(), message.len() as isize);
            let sent = self.call("s2n_send", |s2n, blocked| unsafe { s2n_send(s2n, bytes, length, blocked) });
            if sent < 0 {
                return false;
            }
            message = &message[sent as usize..];
        }
        true
    }

    fn shut_down(&self) {
        self.call("s2n_shutdown", |s2n, blocked| unsafe { s2n_shutdown(s2n, blocked) } as isize);
    }

    /// What was negotiated, as a server would write it into its log.
    fn describe(&self) -> String {
        let (mut first, mut second, mut descriptor) = (0u8, 0u8, -1);
        unsafe {
            s2n_connection_get_cipher_iana_value(self.s2n, &mut first, &mut second);
            s2n_connection_get_read_fd(self.s2n, &mut descriptor);
            assert_eq!(descriptor, self.socket.as_raw_fd());
            assert!(s2n_connection_get_wire_bytes_in(self.s2n) > 0 && s2n_connection_get_wire_bytes_out(self.s2n) > 0);
            format!(
                "{} {} {:02x}{:02x} {} {} {} {} {}",
                s2n_connection_get_actual_protocol_version(self.s2n),
                text(s2n_connection_get_cipher(self.s2n)),
                first,
                second,
                if s2n_connection_is_session_resumed(self.s2n) == 1 { "resumed" } else { "full" },
                text(s2n_connection_get_curve(self.s2n)),
                text(s2n_connection_get_kem_group_name(self.s2n)),
                text(s2n_get_server_name(self.s2n)),
                text(s2n_get_application_protocol(self.s2n)),
            )
        }
    }

    /// Answers each piece of request with a response, until the peer closes.
    fn serve(&self, response: &[u8]) {
        if !self.negotiate() {
            unsafe { s2n_connection_get_alert(self.s2n) };
            self.negotiate(); // as some servers do: it fails again
            return;
        }
        self.count("handshakes", &self.describe());
        self.negotiate(); // does nothing
        while self.receive() {
            if !self.send(response) {
                return;
            }
            unsafe { s2n_connection_release_buffers(self.s2n) };
        }
        self.shut_down();
    }

    /// A request and its response.
    fn ask(&self) {
        if self.negotiate() && self.send(RESPONSE) && self.receive() {
            self.shut_down();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        unsafe { s2n_connection_free(self.s2n) };
    }
}

extern "C" fn put_off(_: *mut s2n_connection, operation: *mut s2n_async_pkey_op) -> c_int {
    PUT_OFF.set(operation);
    0
}

fn configuration() -> *mut s2n_config {
    unsafe {
        let config = s2n_config_new_minimal();
        let policy = CString::new("default_pq").unwrap();
        assert_eq!(s2n_config_set_cipher_preferences(config, policy.as_ptr()), 0);
        config
    }
}

fn server_configuration(certificate: &str, key: &str, later: bool) -> *mut s2n_config {
    let config = configuration();
    let [certificate, key] = [certificate, key].map(|file| CString::new(fs::read(file).unwrap()).unwrap());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let (name, mut secret) = (b"tickets", [7u8; 32]);
    unsafe {
        assert_eq!(s2n_config_add_cert_chain_and_key(config, certificate.as_ptr(), key.as_ptr()), 0);
        if later {
            assert_eq!(s2n_config_set_async_pkey_callback(config, Some(put_off)), 0);
        }
        assert_eq!(s2n_config_append_protocol_preference(config, b"http/1.1".as_ptr(), 8), 0);
        assert_eq!(s2n_config_set_session_tickets_onoff(config, 1), 0);
        assert_eq!(s2n_config_add_ticket_crypto_key(config, name.as_ptr(), 7, secret.as_mut_ptr(), 32, now), 0);
    }
    config
}

fn report(shared: &Shared) -> String {
    let books = shared.closed.wait_while(shared.books.lock().unwrap(), |books| books.open > 0).unwrap();
    let rows = books.rows.iter().map(|(name, endings)| format!("{name:?}: {endings:?}"));
    format!("{{{}}}", rows.collect::<Vec<_>>().join(", "))
}

fn ask(port: &str, times: u32) -> String {
    let shared = Arc::new(Shared::default());
    let config = configuration() as usize;
    assert_eq!(unsafe { s2n_config_disable_x509_verification(config as *mut s2n_config) }, 0);
    for _ in 0..times {
        let socket = TcpStream::connect(("127.0.0.1", port.parse().unwrap())).unwrap();
        Connection::new(s2n_mode::CLIENT, config, socket, false, shared.clone()).ask();
    }
    report(&shared)
}

fn main() {
    let words: Vec<String> = env::args().collect();
    assert_eq!(unsafe { s2n_init() }, 0);
    if words[1] == "connect" {
        for _ in io::stdin().lock().lines().take(1) {} // whoever looks on is there by then
        println!("{}", ask(&words[2], words[3].parse().unwrap()));
        return;
    }
    let config = server_configuration(&words[1], &words[2], words[3] == "later") as usize;
    let blocking = words[3] == "blocking";
    let response: Arc<[u8]> = if words[3] == "large" { vec![b'x'; LARGE].into() } else { RESPONSE.into() };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let shared = Arc::new(Shared::default());
    println!("port {}", listener.local_addr().unwrap().port());
    let accepting = shared.clone();
    thread::spawn(move || {
        for socket in listener.incoming() {
            accepting.books.lock().unwrap().open += 1;
            let (one, response) = (accepting.clone(), response.clone());
            thread::spawn(move || {
                Connection::new(s2n_mode::SERVER, config, socket.unwrap(), blocking, one.clone()).serve(&response);
                one.books.lock().unwrap().open -= 1;
                one.closed.notify_all();
            });
        }
    });
    for _ in io::stdin().lock().lines() {
        println!("{}", report(&shared));
    }
}
