// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto"
	"crypto/rsa"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

const used = 3 * time.Millisecond // by each use of a key elsewhere

// How often keys elsewhere were used.
var signatures, decryptions int32

// A key for signatures that isn't of the standard library, and uses none of its methods.
type signsElsewhere struct{ key *rsa.PrivateKey }

func (s signsElsewhere) Public() crypto.PublicKey { return s.key.Public() }

func (s signsElsewhere) Sign(random io.Reader, digest []byte, options crypto.SignerOpts) ([]byte, error) {
	atomic.AddInt32(&signatures, 1)
	time.Sleep(used)
	if pss, ok := options.(*rsa.PSSOptions); ok {
		return rsa.SignPSS(random, s.key, options.HashFunc(), digest, pss)
	}
	return rsa.SignPKCS1v15(random, s.key, options.HashFunc(), digest)
}

// The same of what decrypts, and can do nothing else.
type decryptsElsewhere struct{ key *rsa.PrivateKey }

func (d decryptsElsewhere) Public() crypto.PublicKey { return d.key.Public() }

func (d decryptsElsewhere) Decrypt(random io.Reader, message []byte, _ crypto.DecrypterOpts) ([]byte, error) {
	atomic.AddInt32(&decryptions, 1)
	time.Sleep(used)
	return rsa.DecryptPKCS1v15(random, d.key, message)
}

// Makes so many connections of each kind, whose clients all have a certificate, once a byte can be read, and prints how often
// keys elsewhere were used.
func countSigners(each int) {
	own := certificate("rsa")
	with := func(key crypto.PrivateKey) *tls.Certificate {
		return &tls.Certificate{Certificate: own.Certificate, PrivateKey: key}
	}
	key := own.PrivateKey.(*rsa.PrivateKey)
	signer, decrypter := with(signsElsewhere{key}), with(decryptsElsewhere{key})
	certificates := map[string]*tls.Certificate{
		"signs-old.test":    signer,
		"signs-new.test":    signer,
		"decrypts.test":     decrypter,
		"own-old.test":      &own,
		"own-new.test":      &own,
		"own-decrypts.test": &own,
	}
	signing, decrypting := uint16(tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256), uint16(tls.TLS_RSA_WITH_AES_128_GCM_SHA256)
	config := &tls.Config{
		ClientAuth:   tls.RequestClientCert,
		CipherSuites: []uint16{signing, decrypting},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return certificates[hello.ServerName], nil
		},
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		panic(err)
	}
	go greet(listener)
	fmt.Println("ready")
	io.ReadFull(os.Stdin, make([]byte, 1))
	for name, certificate := range certificates {
		client := &tls.Config{ServerName: name, InsecureSkipVerify: true, Certificates: []tls.Certificate{own}}
		if certificate == signer {
			client.Certificates[0] = *signer
		}
		client.CipherSuites = []uint16{signing}
		if strings.HasSuffix(name, "decrypts.test") {
			client.CipherSuites[0] = decrypting
		}
		if !strings.HasSuffix(name, "-new.test") {
			client.MaxVersion = tls.VersionTLS12
		}
		for i := 0; i < each; i++ {
			negotiate(listener.Addr().String(), client)
		}
	}
	json.NewEncoder(os.Stdout).Encode(map[string]int32{"sign": signatures, "decrypt": decryptions})
}
