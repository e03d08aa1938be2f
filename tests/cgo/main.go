// SPDX-License-Identifier: Apache-2.0

// A server that has two ports for TLS: one of crypto/tls, the other of OpenSSL, which cgo calls. CERTIFICATE KEY. It prints both
// ports, answers requests of HTTP, and prints what it has counted once its standard input ends. Who asks crypto/tls for a name
// that begins with "nested" has it connect to the other port by OpenSSL first, within the handshake, on the same goroutine.
package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"net"
	"os"
	"strings"
	"sync"
)

var answer = []byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")

type counted struct {
	sync.Mutex
	counts map[string]int
}

func (c *counted) add(of string, succeeded bool) bool {
	c.Lock()
	defer c.Unlock()
	if !succeeded {
		of += " failed"
	}
	c.counts[of]++
	return succeeded
}

func serve(conn io.ReadWriter) {
	request := make([]byte, 4096)
	for {
		size, err := conn.Read(request)
		if err != nil {
			return
		}
		for range bytes.Split(request[:size], []byte("\r\n\r\n"))[1:] {
			conn.Write(answer)
		}
	}
}

func accept(handle func(net.Conn)) int {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for {
			if conn, err := listener.Accept(); err == nil {
				go handle(conn)
			}
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port
}

func main() {
	certificate, key := os.Args[1], os.Args[2]
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		log.Fatal(err)
	}
	own, context, client := counted{counts: map[string]int{}}, contextOf(certificate, key), clientContext()
	byOpenSSL := accept(func(raw net.Conn) {
		conn := over(context, raw)
		defer conn.Close()
		if own.add("OpenSSL server", conn.accept()) {
			serve(conn)
		}
	})
	other := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: byOpenSSL}
	config := &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if strings.HasPrefix(hello.ServerName, "nested") {
			raw, err := net.DialTCP("tcp", nil, other)
			if err != nil {
				return nil, err
			}
			conn := over(client, raw)
			own.add("OpenSSL client", conn.connect())
			conn.Close()
		}
		return &pair, nil
	}}
	byGo := accept(func(raw net.Conn) {
		conn := tls.Server(raw, config)
		defer conn.Close()
		if own.add("Go server", conn.Handshake() == nil) {
			serve(conn)
		}
	})
	json.NewEncoder(os.Stdout).Encode(map[string]int{"Go": byGo, "OpenSSL": byOpenSSL})
	io.Copy(io.Discard, os.Stdin)
	own.Lock()
	json.NewEncoder(os.Stdout).Encode(own.counts)
}
