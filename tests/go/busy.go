// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
)

func spin() {
	for number := 0; ; number++ {
		spun = number
	}
}

var spun int

// Shakes hands with whoever comes, beside so many goroutines that never wait, until its input ends.
func serveBusy(spinning int) {
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate("ecdsa")}})
	if err != nil {
		panic(err)
	}
	go greet(listener)
	for i := 0; i < spinning; i++ {
		go spin()
	}
	fmt.Println("ready")
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	io.Copy(io.Discard, os.Stdin)
}
