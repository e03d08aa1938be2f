// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"time"
)

// Never waits.
func spin() {
	for number := 0; ; number++ {
		spun = number
	}
}

var spun int

type leaf struct{ before *leaf }

var kept *leaf

// Keeps so much that each collection takes long.
func hold() {
	for number := 0; number < 2000000; number++ {
		kept = &leaf{kept}
	}
}

// Makes garbage all the time, beside what is kept.
func litter() {
	hold()
	debug.SetGCPercent(10)
	for {
		littered = make([]*leaf, 64)
	}
}

var littered []*leaf

// Makes a little garbage every millisecond.
func pace() {
	for {
		for number := 0; number < 200; number++ {
			littered = make([]*leaf, 64)
		}
		time.Sleep(time.Millisecond)
	}
}

// The certificate of a server that makes and drops objects in each handshake, as one that reads its files anew each time.
func wasteful(own tls.Certificate) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		for number := 0; number < 2000; number++ {
			littered = make([]*leaf, 64)
		}
		return &own, nil
	}
}

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

// Shakes hands with whoever comes, beside so many goroutines at work, until its input ends.
func serveBusy(work string, working int, signing time.Duration) {
	own := certificate("ecdsa")
	if signing > 0 {
		own.PrivateKey = slow{own.PrivateKey.(crypto.Signer), signing}
	}
	config := &tls.Config{Certificates: []tls.Certificate{own}}
	if work == "wasteful" {
		hold()
		config.GetCertificate = wasteful(own)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		panic(err)
	}
	go greet(listener)
	for i := 0; i < working; i++ {
		go works[work]()
	}
	fmt.Println("ready")
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	io.Copy(io.Discard, os.Stdin)
}
