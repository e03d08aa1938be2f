// SPDX-License-Identifier: Apache-2.0

//go:build shared

package main

import "C"

// Run does what main does, in a program of another language that has loaded this one as a library.
//
//export Run
func Run(word *C.char) {
	run([]string{C.GoString(word)})
}
