// SPDX-License-Identifier: Apache-2.0

// Caddy with no more of its modules than tests need. As `caddy-client http3 URL N` it is an HTTP/3 client instead, which makes N
// requests, each on a connection of its own.
package main

import (
	"os"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddytls"
)

func main() {
	if len(os.Args) == 4 && os.Args[1] == "http3" {
		requestByHTTP3(os.Args[2], os.Args[3])
		return
	}
	caddycmd.Main()
}
