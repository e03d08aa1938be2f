// SPDX-License-Identifier: Apache-2.0

// A server and a client of crypto/tls, with private keys of all kinds. The first argument names the kind: rsa, ecdsa or ed25519;
// or it is the number of connections that are to be made and counted; or it is labels, for connections whose labels are counted;
// or callbacks, for connections with all callbacks of crypto/tls; or signers, for private keys that aren't of the standard library; or interrupted, for reads and writes that panics leave; or busy, for a server that has so many other goroutines at
// work as the second argument says, and signs for so long as the third says; or littering, for the same with goroutines that make
// garbage, or collecting or hoarding, with such that make less of it, which is collected all the time or never, or wasteful, for one whose handshakes make garbage; or restarts, for a server that starts itself anew; or a transport of transports.go, for handshakes over that, whose clients
// are late; or silent, for as many handshakes that never end as the second argument says.
package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"time"
)

func key(kind string) (crypto.Signer, error) {
	switch kind {
	case "rsa":
		return rsa.GenerateKey(rand.Reader, 2048)
	case "ed25519":
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

func certificate(kind string) tls.Certificate {
	signer, err := key(kind)
	if err != nil {
		log.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	if err != nil {
		log.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: signer}
}

func serve(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			io.Copy(conn, conn)
		}()
	}
}

func main() {
	run(os.Args[1:])
}

var works = map[string]func(){"busy": spin, "littering": litter, "collecting": pace, "hoarding": pace, "wasteful": pace}

// By how many percent what is kept may grow until it is collected: never at -1.
var growths = map[string]int{"collecting": 1, "hoarding": -1}

func run(words []string) {
	if words[0] == "labels" {
		countLabels(10)
		return
	}
	if words[0] == "signers" {
		countSigners(5)
		return
	}
	if words[0] == "callbacks" {
		countCallbacks(4)
		return
	}
	if words[0] == "interrupted" {
		countInterrupted(20)
		return
	}
	if growth := growths[words[0]]; growth != 0 {
		hold()
		debug.SetGCPercent(growth)
	}
	if works[words[0]] != nil {
		working, _ := strconv.Atoi(words[1])
		signing, _ := time.ParseDuration(words[2])
		serveBusy(words[0], working, signing)
		return
	}
	if words[0] == "restarts" {
		serveAnew()
		return
	}
	if connect := pairs(words[0]); connect != nil {
		shakeOver(connect)
		return
	}
	if words[0] == "silent" {
		number, _ := strconv.Atoi(words[1])
		shakeForEver(number)
		return
	}
	if connections, err := strconv.Atoi(words[0]); err == nil {
		countCalls(connections)
		return
	}
	config := &tls.Config{Certificates: []tls.Certificate{certificate(words[0])}, ClientAuth: tls.RequestClientCert}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		log.Fatal(err)
	}
	go serve(listener)
	conn, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("hello\n")); err != nil {
		log.Fatal(err)
	}
	if _, err := io.CopyN(os.Stdout, conn, 6); err != nil {
		log.Fatal(err)
	}
}
