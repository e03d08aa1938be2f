// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	transported = 20
	lateness    = 20 * time.Millisecond
)

// A connection of another package's, as those of a proxy protocol or of a listener that limits their number.
type wrapped struct{ net.Conn }

// The same, but that the socket doesn't come first.
type hidden struct {
	number int
	net.Conn
}

// The same by way of a pointer: what lies behind that pointer in memory is another object's.
type pointing struct{ *state }

type state struct {
	net.Conn
	number int
}

// One that lies before another one, of a connection on which nothing happens.
func neighbour(conn, idle net.Conn) net.Conn {
	both := &[2]pointing{{&state{conn, 1}}, {&state{idle, 2}}}
	return &both[0]
}

// One of a listener's that only knows TCP: an interface holds the pointer itself in place of the struct's address.
type embedding struct{ *net.TCPConn }

// The same, of which an interface holds the address.
type larger struct {
	*net.TCPConn
	number int
}

func embed(conn net.Conn) net.Conn {
	return embedding{conn.(*net.TCPConn)}
}

// Objects of one word, of which the second is a connection's on which nothing happens.
func embedBeside(conn, idle net.Conn) net.Conn {
	return &(&[2]embedding{{conn.(*net.TCPConn)}, {idle.(*net.TCPConn)}})[0]
}

// Behind something else.
type behind struct {
	number int
	*net.TCPConn
}

// It reads and writes another socket than the pointer that comes first.
type secondEmbedding struct {
	*net.TCPConn
	used net.Conn
}

func (s *secondEmbedding) Read(data []byte) (int, error) {
	return s.used.Read(data)
}

func (s *secondEmbedding) Write(data []byte) (int, error) {
	return s.used.Write(data)
}

func secondOfTwoEmbedded(conn, idle net.Conn) net.Conn {
	return &secondEmbedding{idle.(*net.TCPConn), conn}
}

// It reads and writes another socket than the one that comes first.
type second struct {
	net.Conn
	used net.Conn
}

func (s *second) Read(data []byte) (int, error) {
	return s.used.Read(data)
}

func (s *second) Write(data []byte) (int, error) {
	return s.used.Write(data)
}

func secondOfTwo(conn, idle net.Conn) net.Conn {
	return &second{idle, conn}
}

// A goroutine of its own reads the socket.
type pumped struct {
	net.Conn
	pipe *io.PipeReader
}

func (p pumped) Read(data []byte) (int, error) {
	return p.pipe.Read(data)
}

func pump(conn net.Conn) net.Conn {
	reader, writer := io.Pipe()
	go io.Copy(writer, conn)
	return pumped{conn, reader}
}

// It looks before each write whether the peer has said anything, which it hasn't, and takes its time over what it does then.
type peeking struct{ *net.TCPConn }

func (p peeking) Write(data []byte) (int, error) {
	raw, err := p.SyscallConn()
	if err != nil {
		return 0, err
	}
	raw.Control(func(descriptor uintptr) {
		_, _, err = syscall.Recvfrom(int(descriptor), make([]byte, 1), syscall.MSG_PEEK)
	})
	if err != syscall.EAGAIN {
		panic(err)
	}
	time.Sleep(lateness)
	return p.TCPConn.Write(data)
}

// Takes its time before each write but the first: the server waits for what it writes.
type lateWriter struct {
	net.Conn
	has bool
}

func (l *lateWriter) Write(data []byte) (int, error) {
	if l.has {
		time.Sleep(lateness)
	}
	l.has = true
	return l.Conn.Write(data)
}

// Both ends of a connection.
type pair func() (server, client net.Conn)

func dialled(network, address string) pair {
	listener, err := net.Listen(network, address)
	if err != nil {
		panic(err)
	}
	return func() (net.Conn, net.Conn) {
		client, err := net.Dial(network, listener.Addr().String())
		if err != nil {
			panic(err)
		}
		server, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		return server, client
	}
}

// With something around the server's end, in which there is also a connection on which nothing happens.
func besideIdle(wrap func(conn, idle net.Conn) net.Conn) pair {
	connect := dialled("tcp", "127.0.0.1:0")
	idle, _ := connect()
	return func() (net.Conn, net.Conn) {
		server, client := connect()
		return wrap(server, idle), client
	}
}

func pairs(transport string) pair {
	switch transport {
	case "tcp":
		return dialled("tcp", "127.0.0.1:0")
	case "unix":
		return dialled("unix", fmt.Sprintf("@ssllatency-test-%d", os.Getpid()))
	case "pipe":
		return net.Pipe
	case "neighbour":
		return besideIdle(neighbour)
	case "embedded-beside":
		return besideIdle(embedBeside)
	case "second-of-two-embedded":
		return besideIdle(secondOfTwoEmbedded)
	case "second-of-two":
		return besideIdle(secondOfTwo)
	}
	wraps := map[string]func(net.Conn) net.Conn{
		"wrapped":          func(conn net.Conn) net.Conn { return wrapped{conn} },
		"wrapped-twice":    func(conn net.Conn) net.Conn { return &wrapped{wrapped{conn}} },
		"hidden":           func(conn net.Conn) net.Conn { return &hidden{1, conn} },
		"pumped":           pump,
		"embedded":         embed,
		"peeking":          func(conn net.Conn) net.Conn { return peeking{conn.(*net.TCPConn)} },
		"larger":           func(conn net.Conn) net.Conn { return larger{conn.(*net.TCPConn), 1} },
		"pointed":          func(conn net.Conn) net.Conn { return &larger{conn.(*net.TCPConn), 1} },
		"wrapped-embedded": func(conn net.Conn) net.Conn { return &wrapped{embed(conn)} },
		"behind":           func(conn net.Conn) net.Conn { return &behind{1, conn.(*net.TCPConn)} },
	}
	wrap := wraps[transport]
	if wrap == nil {
		return nil
	}
	connect := dialled("tcp", "127.0.0.1:0")
	return func() (net.Conn, net.Conn) {
		server, client := connect()
		return wrap(server), client
	}
}

// Shakes hands so many times over this transport once a byte can be read, and prints how long the clients were late.
func shakeOver(connect pair) {
	config := &tls.Config{Certificates: []tls.Certificate{certificate("ecdsa")}, SessionTicketsDisabled: true}
	fmt.Println("ready")
	io.ReadFull(os.Stdin, make([]byte, 1))
	for i := 0; i < transported; i++ {
		server, client := connect()
		var both sync.WaitGroup
		both.Add(2)
		shake := func(conn *tls.Conn) {
			defer both.Done()
			if err := conn.Handshake(); err != nil {
				panic(err)
			}
		}
		go shake(tls.Server(server, config))
		go shake(tls.Client(&lateWriter{Conn: client}, &tls.Config{InsecureSkipVerify: true}))
		both.Wait()
		server.Close()
		client.Close()
	}
	json.NewEncoder(os.Stdout).Encode(map[string]int64{"late_ns": transported * int64(lateness)})
}

// A connection that nothing ever comes from.
type silent struct {
	net.Conn
	reading *sync.WaitGroup
}

func (s silent) Read([]byte) (int, error) {
	s.reading.Done()
	select {}
}

// Has so many goroutines begin a handshake each that never ends, once a byte can be read, until its input ends.
func shakeForEver(number int) {
	config := &tls.Config{Certificates: []tls.Certificate{certificate("ecdsa")}}
	fmt.Println("ready")
	io.ReadFull(os.Stdin, make([]byte, 1))
	var reading sync.WaitGroup
	reading.Add(number)
	for i := 0; i < number; i++ {
		go tls.Server(silent{reading: &reading}, config).Handshake()
	}
	reading.Wait()
	fmt.Println("all")
	io.Copy(io.Discard, os.Stdin)
}
