// SPDX-License-Identifier: Apache-2.0

//go:build profile

package main

import (
	"os"
	"runtime/pprof"
	"time"
)

// Writes a profile of the program's first seconds to the file that PROFILE names, and ends it.
func init() {
	file, err := os.Create(os.Getenv("PROFILE"))
	if err != nil {
		panic(err)
	}
	pprof.StartCPUProfile(file)
	go func() {
		time.Sleep(3 * time.Second)
		pprof.StopCPUProfile()
		file.Close()
		os.Exit(0)
	}()
}
