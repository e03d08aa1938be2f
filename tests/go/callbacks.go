// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

const (
	plain = "plain.test" // whose client has no callbacks
	asked = "asked.test" // both sides have
	fresh = "fresh.test" // and the server makes a key and a certificate in one
)

// How long callbacks took, and how many there were, by their side and whether they check the other.
type spent struct {
	sync.Mutex
	Nanoseconds map[string]int64
	Calls       map[string]int
}

func (s *spent) in(what string, callback func()) {
	began := time.Now()
	time.Sleep(2 * time.Millisecond)
	callback()
	took := time.Since(began)
	s.Lock()
	defer s.Unlock()
	s.Nanoseconds[what] += int64(took)
	s.Calls[what]++
}

func nothing() {}

func (s *spent) checks(config *tls.Config, what string) {
	config.VerifyPeerCertificate = func([][]byte, [][]*x509.Certificate) error {
		s.in(what, nothing)
		return nil
	}
	config.VerifyConnection = func(tls.ConnectionState) error {
		s.in(what, nothing)
		return nil
	}
}

// Shakes hands so many times with a server that has all callbacks, and prints what these say.
func countCallbacks(each int) {
	s := &spent{Nanoseconds: map[string]int64{}, Calls: map[string]int{}}
	own := certificate("rsa")
	config := &tls.Config{ClientAuth: tls.RequestClientCert}
	config.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		given := own
		s.in("server", func() {
			if hello.ServerName == fresh {
				given = certificate("ecdsa")
			}
		})
		return &given, nil
	}
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		s.in("server", nothing)
		return nil, nil
	}
	s.checks(config, "server checks")
	s.keepSessions(config)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		panic(err)
	}
	go greet(listener)
	fmt.Println("ready")
	io.ReadFull(os.Stdin, make([]byte, 1))
	for _, name := range []string{plain, asked, fresh} {
		for number := 0; number < each; number++ {
			client := &tls.Config{ServerName: name, InsecureSkipVerify: true}
			if number%2 == 0 {
				client.MaxVersion = tls.VersionTLS12
			}
			if name != plain {
				client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
				client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
					s.in("client", nothing)
					return &own, nil
				}
				s.checks(client, "client checks")
			}
			callTwice(listener, client)
		}
	}
	s.Lock()
	json.NewEncoder(os.Stdout).Encode(s)
}

// The second time the session is resumed, where the client keeps it.
func callTwice(listener net.Listener, config *tls.Config) {
	for i := 0; i < 2; i++ {
		negotiate(listener.Addr().String(), config)
	}
}
