// SPDX-License-Identifier: Apache-2.0

//go:build go1.21

package main

import "crypto/tls"

// The server's sessions go through callbacks, which crypto/tls has since Go 1.21.
func (s *spent) keepSessions(config *tls.Config) {
	config.WrapSession = func(state tls.ConnectionState, session *tls.SessionState) (ticket []byte, err error) {
		s.in("server", func() { ticket, err = config.EncryptTicket(state, session) })
		return
	}
	config.UnwrapSession = func(ticket []byte, state tls.ConnectionState) (session *tls.SessionState, err error) {
		s.in("server", func() { session, err = config.DecryptTicket(ticket, state) })
		return
	}
}
