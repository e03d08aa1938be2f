// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto"
	"crypto/rsa"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

var versionNames = map[uint16]string{tls.VersionTLS12: "TLSv1.2", tls.VersionTLS13: "TLSv1.3"}

// Clients by the name that they ask for.
func clients(own tls.Certificate) map[string]*tls.Config {
	return map[string]*tls.Config{
		"old.test":         {MaxVersion: tls.VersionTLS12},
		"new.test":         {},
		"h2.test":          {NextProtos: []string{"h2"}},
		"p384.test":        {CurvePreferences: []tls.CurveID{tls.CurveP384}},
		"signer.test":      {},
		"certificate.test": {Certificates: []tls.Certificate{own}},
		"resumed-old.test": {MaxVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(1)},
		"resumed-new.test": {ClientSessionCache: tls.NewLRUClientSessionCache(1)},
	}
}

// A key that crypto/tls knows nothing of, as one in a TPM or of a service in the network.
type elsewhere struct{ key *rsa.PrivateKey }

func (e elsewhere) Public() crypto.PublicKey { return e.key.Public() }

func (e elsewhere) Sign(random io.Reader, digest []byte, options crypto.SignerOpts) ([]byte, error) {
	time.Sleep(5 * time.Millisecond)
	return rsa.SignPSS(random, e.key, options.HashFunc(), digest, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
}

// One connection; what its client has negotiated.
func negotiate(address string, config *tls.Config) string {
	conn, err := tls.Dial("tcp", address, config)
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil { // with it come the tickets of TLS 1.3
		panic(err)
	}
	state := conn.ConnectionState()
	resumed, protocol, certificate := "no", "none", "not given"
	if state.DidResume {
		resumed = "yes"
	}
	if state.NegotiatedProtocol != "" {
		protocol = state.NegotiatedProtocol
	}
	if len(config.Certificates) > 0 {
		certificate = "given"
	}
	version, cipher := versionNames[state.Version], tls.CipherSuiteName(state.CipherSuite)
	return strings.Join([]string{config.ServerName, version, cipher, resumed, protocol, certificate}, " ")
}

func greet(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			conn.Write([]byte{'x'})
			io.Copy(io.Discard, conn)
		}()
	}
}

// Makes so many connections of each kind of client, one after the other, once a byte can be read, and prints how many
// have negotiated what.
func countLabels(each int) {
	own := certificate("rsa")
	config := &tls.Config{
		Certificates: []tls.Certificate{own}, ClientAuth: tls.RequestClientCert, NextProtos: []string{"h2", "http/1.1"},
	}
	far := tls.Certificate{Certificate: own.Certificate, PrivateKey: elsewhere{own.PrivateKey.(*rsa.PrivateKey)}}
	config.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if hello.ServerName == "signer.test" {
			return &far, nil
		}
		return nil, nil // the other one
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		panic(err)
	}
	go greet(listener)
	fmt.Println("ready")
	io.ReadFull(os.Stdin, make([]byte, 1))
	counts := map[string]int{}
	for name, config := range clients(own) {
		config.ServerName, config.InsecureSkipVerify = name, true
		for i := 0; i < each; i++ {
			counts[negotiate(listener.Addr().String(), config)]++
		}
	}
	json.NewEncoder(os.Stdout).Encode(counts)
}
