// SPDX-License-Identifier: Apache-2.0

// A server of crypto/tls that answers each request with 1 KiB: PORT CERTIFICATE KEY. It prints how many requests it has answered
// so far for each line that it reads.
package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"os"
	"strings"
	"sync/atomic"
)

var (
	answer   = []byte("HTTP/1.1 200 OK\r\nContent-Length: 1024\r\n\r\n" + strings.Repeat("x", 1024))
	answered atomic.Int64
)

// Requests have no body, and come whole.
func serve(connection net.Conn) {
	defer connection.Close()
	request := make([]byte, 16384)
	for {
		size, err := connection.Read(request)
		if err != nil {
			return
		}
		for number := bytes.Count(request[:size], []byte("\r\n\r\n")); number > 0; number-- {
			if _, err := connection.Write(answer); err != nil {
				return
			}
			answered.Add(1)
		}
		if bytes.Contains(request[:size], []byte("Connection: close")) {
			return
		}
	}
}

func accept(listener net.Listener) {
	for {
		if connection, err := listener.Accept(); err == nil {
			go serve(connection)
		}
	}
}

func main() {
	pair, err := tls.LoadX509KeyPair(os.Args[2], os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, SessionTicketsDisabled: true}
	listener, err := tls.Listen("tcp", "127.0.0.1:"+os.Args[1], config)
	if err != nil {
		log.Fatal(err)
	}
	go accept(listener)
	for asked := bufio.NewScanner(os.Stdin); asked.Scan(); {
		fmt.Println(answered.Load())
	}
}
