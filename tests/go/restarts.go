// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
)

const handedOn = "LISTENER" // names the descriptor of a listener that the process before this one has handed on

func inherited() *net.TCPListener {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if number, none := strconv.Atoi(os.Getenv(handedOn)); none == nil {
		listener.Close()
		listener, err = net.FileListener(os.NewFile(uintptr(number), handedOn))
	}
	if err != nil {
		panic(err)
	}
	return listener.(*net.TCPListener)
}

// Starts this program anew with the listener, in a process of its own, or in place of this one: then it doesn't return.
func startAnew(listener *net.TCPListener, inPlace bool) {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	raw, err := listener.SyscallConn()
	if err != nil {
		panic(err)
	}
	raw.Control(func(descriptor uintptr) {
		if inPlace {
			kept, _ := syscall.Dup(int(descriptor)) // which isn't closed
			os.Setenv(handedOn, strconv.Itoa(kept))
			err = syscall.Exec(path, os.Args, os.Environ())
		} else {
			os.Setenv(handedOn, "3")
			files := []uintptr{0, 1, 2, descriptor}
			_, err = syscall.ForkExec(path, os.Args, &syscall.ProcAttr{Env: os.Environ(), Files: files})
		}
	})
	if err != nil {
		panic(err)
	}
}

// Shakes hands with whoever comes, until it is told how it is to start anew, "child" or "exec", or its input ends. It prints its
// process and port. What it has accepted before there is a child, it goes on to serve until that is over.
func serveAnew() {
	config := &tls.Config{Certificates: []tls.Certificate{certificate("ecdsa")}}
	listener, over := inherited(), make(chan bool)
	var running sync.WaitGroup
	go func() {
		defer close(over)
		for {
			raw, err := listener.Accept()
			if err != nil {
				return
			}
			running.Add(1)
			go func() {
				defer running.Done()
				defer raw.Close()
				conn := tls.Server(raw, config)
				conn.Write([]byte{'x'})
				io.Copy(io.Discard, conn)
			}()
		}
	}()
	fmt.Println(os.Getpid(), listener.Addr().(*net.TCPAddr).Port)
	var how string
	if _, err := fmt.Scanln(&how); err != nil {
		return
	}
	startAnew(listener, how == "exec")
	listener.Close()
	<-over
	running.Wait()
}
