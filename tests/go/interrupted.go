// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"runtime"
)

// A connection that does something else first in its reads and writes, where it is told to.
type interrupting struct {
	net.Conn
	first func()
}

func (i *interrupting) Read(bytes []byte) (int, error) {
	i.interrupt()
	return i.Conn.Read(bytes)
}

func (i *interrupting) Write(bytes []byte) (int, error) {
	i.interrupt()
	return i.Conn.Write(bytes)
}

func (i *interrupting) interrupt() {
	if first := i.first; first != nil {
		i.first = nil
		first()
	}
}

func (c *calls) exchange(conn *tls.Conn, line []byte, write bool) {
	if write {
		_, err := conn.Write(line)
		c.count("Write", err)
		return
	}
	_, err := conn.Read(line)
	c.count("Read", err)
}

// Leaves a read or a write by a panic that is recovered outside of it, or by the end of a goroutine of its own.
func (c *calls) leave(conn *tls.Conn, raw *interrupting, write, exits bool) {
	function := map[bool]string{false: "Read", true: "Write"}[write]
	c.add(function, "left")
	if exits {
		raw.first = runtime.Goexit
		done := make(chan bool)
		go func() {
			defer close(done)
			c.exchange(conn, make([]byte, 100), write)
		}()
		<-done
		return
	}
	raw.first = func() { panic(fmt.Sprint(deep(200))) }
	defer func() { recover() }()
	c.exchange(conn, make([]byte, 100), write)
}

// Once a byte can be read, has a client and a server exchange so many lines, before each of which the server leaves a read by a
// panic and another by the end of its goroutine, and at last a write; and prints the calls of the server that the program saw.
func countInterrupted(lines int) {
	c := calls{counts: map[string]map[string]int{}}
	config := &tls.Config{Certificates: []tls.Certificate{certificate("ecdsa")}}
	fmt.Println("ready")
	os.Stdin.Read(make([]byte, 1))
	serverSide, clientSide := dialled("tcp", "127.0.0.1:0")()
	over := make(chan bool)
	go func() {
		defer close(over)
		conn := tls.Client(clientSide, &tls.Config{InsecureSkipVerify: true})
		line := make([]byte, 100)
		for {
			n, err := conn.Read(line)
			if err != nil {
				return
			}
			conn.Write(line[:n])
		}
	}()
	raw := &interrupting{Conn: serverSide}
	conn := tls.Server(raw, config)
	c.count("serverHandshake", conn.Handshake())
	line := make([]byte, 100)
	for number := 0; number < lines; number++ {
		c.exchange(conn, []byte("hello"), true)
		c.leave(conn, raw, false, false)
		c.leave(conn, raw, false, true)
		c.exchange(conn, line, false)
	}
	c.leave(conn, raw, true, false) // what is written behind it the client can't read
	c.count("Close", conn.Close())
	<-over
	json.NewEncoder(os.Stdout).Encode(c.counts)
}
