// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"strconv"

	"github.com/quic-go/quic-go/http3"
)

func request(url string) error {
	transport := &http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.Close()
	response, err := (&http.Client{Transport: transport}).Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

func requestByHTTP3(url, number string) {
	times, err := strconv.Atoi(number)
	for ; err == nil && times > 0; times-- {
		err = request(url)
	}
	if err != nil {
		log.Fatal(err)
	}
}
