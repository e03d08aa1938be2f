// SPDX-License-Identifier: Apache-2.0
//! A TLS server on rustls: usage: server CERTIFICATE KEY.
//!
//! It listens on a free port of the loopback address and prints "port N". It takes one connection after the other and answers each
//! request on it, until the client closes it.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, Stream};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::{env, io};

#[cfg(feature = "aws-lc-rs")]
use rustls::crypto::aws_lc_rs as cryptography;
#[cfg(not(feature = "aws-lc-rs"))]
use rustls::crypto::ring as cryptography;

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

fn configuration(certificate: &str, key: &str) -> ServerConfig {
    let chain = CertificateDer::pem_file_iter(certificate).unwrap().map(Result::unwrap).collect();
    ServerConfig::builder_with_provider(Arc::new(cryptography::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap())
        .unwrap()
}

/// Answers each record with a response, as each is a request; fails where the handshake does, or the client goes away.
fn serve(mut connection: ServerConnection, mut socket: TcpStream) -> io::Result<()> {
    let mut request = [0; 4096];
    while Stream::new(&mut connection, &mut socket).read(&mut request)? > 0 {
        Stream::new(&mut connection, &mut socket).write_all(RESPONSE)?;
    }
    connection.send_close_notify();
    connection.complete_io(&mut socket).map(|_| ())
}

fn main() -> io::Result<()> {
    let words: Vec<String> = env::args().collect();
    let config = Arc::new(configuration(&words[1], &words[2]));
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("port {}", listener.local_addr()?.port());
    for socket in listener.incoming() {
        let _ = serve(ServerConnection::new(config.clone()).unwrap(), socket?);
    }
    Ok(())
}
