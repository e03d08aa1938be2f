// SPDX-License-Identifier: Apache-2.0

package main

/*
#cgo LDFLAGS: -lssl -lcrypto
#include <openssl/ssl.h>

static SSL_CTX *server_context(const char *certificate, const char *key)
{
	SSL_CTX *context = SSL_CTX_new(TLS_server_method());

	if (SSL_CTX_use_certificate_file(context, certificate, SSL_FILETYPE_PEM) != 1 ||
	        SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1)
		return NULL;
	return context;
}

static SSL *connection_of(SSL_CTX *context, int descriptor)
{
	SSL *ssl = SSL_new(context);

	SSL_set_fd(ssl, descriptor);
	return ssl;
}
*/
import "C"

import (
	"io"
	"net"
	"os"
	"unsafe"
)

// A connection of OpenSSL's, on a descriptor that blocks. Each call is one of C's own, on whatever thread the goroutine has then.
type connection struct {
	ssl  *C.SSL
	file *os.File
}

func contextOf(certificate, key string) *C.SSL_CTX {
	context := C.server_context(C.CString(certificate), C.CString(key))
	if context == nil {
		panic("OpenSSL takes no such certificate")
	}
	return context
}

func clientContext() *C.SSL_CTX {
	return C.SSL_CTX_new(C.TLS_client_method())
}

func over(context *C.SSL_CTX, raw net.Conn) *connection {
	file, err := raw.(*net.TCPConn).File()
	if err != nil {
		panic(err)
	}
	raw.Close()
	return &connection{C.connection_of(context, C.int(file.Fd())), file}
}

func (c *connection) accept() bool {
	return C.SSL_accept(c.ssl) == 1
}

func (c *connection) connect() bool {
	return C.SSL_connect(c.ssl) == 1
}

func (c *connection) Read(buffer []byte) (int, error) {
	if size := C.SSL_read(c.ssl, unsafe.Pointer(&buffer[0]), C.int(len(buffer))); size > 0 {
		return int(size), nil
	}
	return 0, io.EOF
}

func (c *connection) Write(buffer []byte) (int, error) {
	if size := C.SSL_write(c.ssl, unsafe.Pointer(&buffer[0]), C.int(len(buffer))); size > 0 {
		return int(size), nil
	}
	return 0, io.ErrClosedPipe
}

func (c *connection) Close() error {
	C.SSL_shutdown(c.ssl)
	C.SSL_free(c.ssl)
	return c.file.Close()
}
