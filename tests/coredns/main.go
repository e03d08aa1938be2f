// SPDX-License-Identifier: Apache-2.0

// CoreDNS, as clusters have it, with few of its plugins: it answers over TLS, over HTTPS and over QUIC who asks.
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/tls"
	_ "github.com/coredns/coredns/plugin/whoami"
)

func main() {
	coremain.Run()
}
