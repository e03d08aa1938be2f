// SPDX-License-Identifier: Apache-2.0

// Loads a plugin, the first argument, and runs it with the second. It has no TLS itself.
package main

import (
	"os"
	"plugin"
)

func main() {
	opened, err := plugin.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	run, err := opened.Lookup("Run")
	if err != nil {
		panic(err)
	}
	run.(func(string))(os.Args[2])
}
