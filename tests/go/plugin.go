// SPDX-License-Identifier: Apache-2.0

//go:build plugin

package main

// Run does what main does, in a Go program that has loaded this one as a plugin.
func Run(word string) {
	run([]string{word})
}
