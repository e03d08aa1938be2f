// SPDX-License-Identifier: Apache-2.0
//! A TLS server on BoringSSL, or on AWS-LC, which descends from it: usage: server CERTIFICATE KEY [later CLIENT_CA | slow tickets |
//! slow cache]. And a client: server connect PORT TIMES [CERTIFICATE KEY].
//!
//! It listens on a free port of the loopback address and prints "port N". For each line of its input, once no connection is open,
//! it prints as a line of JSON how its calls ended, by function: "success", or the number that SSL_get_error gave. With
//! "later" each step of a handshake that the application may put off is put off once: choosing a certificate (12 and 4), the private
//! key's operation (13), which then needs an ECDSA key on P-256, and the check of the client's certificate (16). With "slow"
//! callbacks take some milliseconds each, those for tickets' keys or those of a cache of sessions among them; the line has them
//! beside the functions. An SSL_accept that
//! fails is called once more. The client makes so many connections, one after the other, each with a request and its response,
//! and prints such a line at the end.

mod tls;

use std::collections::BTreeMap;
use std::io::BufRead;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Condvar, Mutex};
use std::{env, io, ptr, thread, time};

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

#[derive(Default)]
struct Books {
    open: usize,
    calls: BTreeMap<&'static str, BTreeMap<String, u64>>,
}

#[derive(Default)]
struct Shared {
    books: Mutex<Books>,
    closed: Condvar,
}

struct Connection {
    ssl: *mut tls::Ssl,
    socket: TcpStream,
    shared: Arc<Shared>,
}

impl Connection {
    /// Calls again until it succeeds or fails for good, and says whether it succeeded.
    fn call(&self, name: &'static str, function: impl Fn(*mut tls::Ssl) -> i32, success: impl Fn(i32) -> bool) -> bool {
        loop {
            let returned = function(self.ssl);
            let code = if success(returned) { 0 } else { unsafe { tls::SSL_get_error(self.ssl, returned) } };
            self.count(name, code);
            match code {
                0 => return true,
                tls::WANT_READ => self.wait(tls::POLLIN),
                tls::WANT_WRITE => self.wait(tls::POLLOUT),
                4 | 12 | 13 | 16 => thread::sleep(time::Duration::from_millis(1)),
                _ => return false,
            }
        }
    }

    fn count(&self, name: &'static str, code: i32) {
        let ending = if code == 0 { "success".to_string() } else { code.to_string() };
        *self.shared.books.lock().unwrap().calls.entry(name).or_default().entry(ending).or_default() += 1;
    }

    fn wait(&self, events: i16) {
        let mut one = tls::PollFd { fd: self.socket.as_raw_fd(), events, revents: 0 };
        unsafe { tls::poll(&mut one, 1, 20_000) };
    }

    /// A request and its response.
    fn ask(&self) {
        let mut piece = [0u8; 4096];
        let room = piece.as_mut_ptr();
        let length = RESPONSE.len() as i32; // any bytes will do
        let _ = self.call("SSL_connect", |ssl| unsafe { tls::SSL_connect(ssl) }, |returned| returned == 1)
            && self.call("SSL_write", |ssl| unsafe { tls::SSL_write(ssl, RESPONSE.as_ptr().cast(), length) }, |returned| returned > 0)
            && self.call("SSL_read", |ssl| unsafe { tls::SSL_read(ssl, room.cast(), 4096) }, |returned| returned > 0)
            && self.call("SSL_shutdown", |ssl| unsafe { tls::SSL_shutdown(ssl) }, |returned| returned >= 0);
    }

    /// Answers each piece of request with a response, until the peer closes.
    fn serve(&self) {
        let mut piece = [0u8; 4096];
        let room = piece.as_mut_ptr();
        let accept = |ssl| unsafe { tls::SSL_accept(ssl) };
        if !self.call("SSL_accept", accept, |returned| returned == 1) {
            self.call("SSL_accept", accept, |returned| returned == 1); // as some servers do: it fails again
            return;
        }
        while self.call("SSL_read", |ssl| unsafe { tls::SSL_read(ssl, room.cast(), 4096) }, |returned| returned > 0) {
            let length = RESPONSE.len() as i32;
            let written = |ssl| unsafe { tls::SSL_write(ssl, RESPONSE.as_ptr().cast(), length) };
            if !self.call("SSL_write", written, |returned| returned > 0) {
                return;
            }
        }
        self.call("SSL_shutdown", |ssl| unsafe { tls::SSL_shutdown(ssl) }, |returned| returned >= 0);
    }
}

fn handle(context: usize, socket: TcpStream, shared: Arc<Shared>) {
    socket.set_nonblocking(true).unwrap();
    socket.set_nodelay(true).unwrap();
    tls::begin_connection();
    let ssl = unsafe { tls::SSL_new(context as *mut tls::SslCtx) };
    assert!(ssl != ptr::null_mut());
    unsafe { tls::SSL_set_fd(ssl, socket.as_raw_fd()) };
    let connection = Connection { ssl, socket, shared: shared.clone() };
    connection.serve();
    unsafe { tls::SSL_free(connection.ssl) };
    drop(connection.socket);
    shared.books.lock().unwrap().open -= 1;
    shared.closed.notify_all();
}

/// Connects and asks `times` times; what is printed at the end.
fn ask(port: &str, times: u32, context: usize) -> String {
    let shared = Arc::new(Shared::default());
    for _ in 0..times {
        let socket = TcpStream::connect(("127.0.0.1", port.parse().unwrap())).unwrap();
        socket.set_nonblocking(true).unwrap();
        let ssl = unsafe { tls::SSL_new(context as *mut tls::SslCtx) };
        unsafe { tls::SSL_set_fd(ssl, socket.as_raw_fd()) };
        let connection = Connection { ssl, socket, shared: shared.clone() };
        connection.ask();
        unsafe { tls::SSL_free(connection.ssl) };
    }
    report(&shared)
}

fn report(shared: &Shared) -> String {
    let books = shared.closed.wait_while(shared.books.lock().unwrap(), |books| books.open > 0).unwrap();
    let rows = books.calls.iter().map(|(name, endings)| format!("{name:?}: {endings:?}"));
    let callbacks = tls::called().into_iter().map(|(name, number)| format!("{name:?}: {{\"success\": {number}}}"));
    format!("{{{}}}", rows.chain(callbacks).collect::<Vec<_>>().join(", "))
}

fn main() {
    let words: Vec<String> = env::args().collect();
    if words[1] == "connect" {
        let pair = words.get(4).map(|certificate| (certificate.as_str(), words[5].as_str()));
        println!("{}", ask(&words[2], words[3].parse().unwrap(), tls::client_context(pair) as usize));
        return;
    }
    let later = words.get(3).is_some_and(|word| word == "later");
    let context = if words.get(3).is_some_and(|word| word == "slow") {
        tls::slow_context(&words[1], &words[2], words[4] == "tickets")
    } else {
        tls::context(&words[1], &words[2], if later { Some(words[4].as_str()) } else { None })
    } as usize;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let shared = Arc::new(Shared::default());
    println!("port {}", listener.local_addr().unwrap().port());
    let accepting = shared.clone();
    thread::spawn(move || {
        for socket in listener.incoming() {
            accepting.books.lock().unwrap().open += 1;
            let one = accepting.clone();
            thread::spawn(move || handle(context, socket.unwrap(), one));
        }
    });
    for _ in io::stdin().lock().lines() {
        println!("{}", report(&shared));
    }
}
