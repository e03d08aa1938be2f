// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
)

// What each connection is for, by the name that its client asks for.
const (
	echo     = "echo"     // a handshake, and a line there and back
	refused  = "refused"  // the client refuses the certificate
	panics   = "panics"   // the server's callback panics, which is recovered outside of the handshake
	exits    = "exits"    // it ends its goroutine
	recovers = "recovers" // it panics, recovers itself, and needs a large stack
	nested   = "nested"   // it makes a connection itself
	late     = "late"     // the client's deadlines have passed, of a read and of its last write
)

// Calls by function and outcome, as the program sees them itself.
type calls struct {
	sync.Mutex
	counts map[string]map[string]int
}

func (c *calls) count(function string, err error) error {
	outcome := "success"
	if err == io.EOF && function == "Read" {
		outcome = "closed"
	} else if timeout, ok := err.(net.Error); ok && timeout.Timeout() && function == "Read" {
		outcome = "retry"
	} else if err != nil {
		outcome = "failure"
	}
	c.add(function, outcome)
	return err
}

func (c *calls) add(function, outcome string) {
	c.Lock()
	defer c.Unlock()
	if c.counts[function] == nil {
		c.counts[function] = map[string]int{}
	}
	c.counts[function][outcome]++
}

type counted struct {
	calls
	listener net.Listener
	servers  sync.WaitGroup
}

func deep(n int) int {
	var room [128]byte
	if n == 0 {
		return int(room[0])
	}
	return deep(n-1) + int(room[n%128])
}

func (c *counted) callback(kind string) {
	switch kind {
	case panics:
		panic("as wanted")
	case exits:
		runtime.Goexit()
	case recovers:
		defer func() { recover() }()
		panic(fmt.Sprint(deep(2000)))
	case nested:
		c.client(echo, 0)
	}
}

func (c *counted) serve(raw net.Conn, config *tls.Config) {
	var kind string
	asked := config.Clone()
	asked.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		kind = strings.TrimSuffix(hello.ServerName, ".test")
		c.callback(kind)
		return &config.Certificates[0], nil
	}
	conn, back := tls.Server(raw, asked), false
	defer func() {
		recover()
		if !back {
			c.add("serverHandshake", "left")
		}
		c.count("Close", conn.Close())
		c.servers.Done()
	}()
	err := conn.Handshake()
	back = true
	if c.count("serverHandshake", err) != nil {
		return
	}
	line := make([]byte, 100)
	for {
		n, err := conn.Read(line)
		if c.count("Read", err) != nil {
			return
		}
		_, err = conn.Write(line[:n])
		c.count("Write", err)
	}
}

func (c *counted) client(kind string, number int) {
	raw, err := net.Dial("tcp", c.listener.Addr().String())
	if err != nil {
		panic(err)
	}
	versions := []uint16{tls.VersionTLS12, tls.VersionTLS13}
	config := &tls.Config{ServerName: kind + ".test", InsecureSkipVerify: kind != refused, MaxVersion: versions[number%2]}
	conn := tls.Client(raw, config)
	defer func() { c.count("Close", conn.Close()) }()
	if c.count("clientHandshake", conn.Handshake()) != nil {
		return
	}
	line := make([]byte, 100)
	if kind == late {
		conn.SetReadDeadline(time.Unix(1, 0))
		_, err = conn.Read(line)
		c.count("Read", err)
		conn.SetReadDeadline(time.Time{})
	}
	_, err = conn.Write([]byte("hello"))
	c.count("Write", err)
	_, err = conn.Read(line)
	c.count("Read", err)
	if kind == late {
		conn.SetWriteDeadline(time.Unix(1, 0))
		_, err = conn.Write(line)
		c.count("Write", err)
	}
}

func (c *counted) accept(config *tls.Config) {
	for {
		raw, err := c.listener.Accept()
		if err != nil {
			return
		}
		c.servers.Add(1)
		go c.serve(raw, config)
	}
}

// Makes connections of all kinds, many at a time, once a byte can be read, and prints how many calls it has made.
func countCalls(connections int) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	made := certificate("ecdsa")
	c := &counted{calls: calls{counts: map[string]map[string]int{}}, listener: listener}
	go c.accept(&tls.Config{Certificates: []tls.Certificate{made}})
	fmt.Println("ready")
	io.ReadFull(os.Stdin, make([]byte, 1))
	kinds := []string{echo, refused, recovers, panics, late, nested, exits, recovers}
	var clients sync.WaitGroup
	places := make(chan bool, 40)
	for number := 0; number < connections; number++ {
		places <- true
		clients.Add(1)
		go func(number int) {
			defer clients.Done()
			c.client(kinds[number%len(kinds)], number/len(kinds))
			<-places
		}(number)
		if number%100 == 0 {
			runtime.GC()
		}
	}
	clients.Wait()
	c.servers.Wait()
	time.Sleep(50 * time.Millisecond) // until the last calls are back
	json.NewEncoder(os.Stdout).Encode(c.counts)
}
