// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

func spin() {
	for number := 0; ; number++ {
		spun = number
	}
}

var spun int

// A key that takes its time, and works all the while.
type slow struct {
	crypto.Signer
	signing time.Duration
}

func (s slow) Sign(random io.Reader, digest []byte, options crypto.SignerOpts) ([]byte, error) {
	for began := time.Now(); time.Since(began) < s.signing; {
		spun++
	}
	return s.Signer.Sign(random, digest, options)
}

// Shakes hands with whoever comes, beside so many goroutines that never wait, until its input ends.
func serveBusy(spinning int, signing time.Duration) {
	own := certificate("ecdsa")
	if signing > 0 {
		own.PrivateKey = slow{own.PrivateKey.(crypto.Signer), signing}
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{own}})
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
