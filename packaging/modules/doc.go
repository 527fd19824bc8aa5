// Command modules packs this tree's Go modules as a module proxy would serve them, so that what users do with a
// release can be tried before there is one.
//
//	go run ./packaging/modules check                      # is each module one that `go get` takes?
//	go run ./packaging/modules proxy /tmp/proxy           # GOPROXY=file:///tmp/proxy serves them
//	go run ./packaging/modules set v0.2.0                 # the version that the modules require of each other
//	go run ./packaging/modules tidy                       # go mod tidy, against the modules of this tree
//
// The modules require each other at one version, the next that is to be released; go.work puts this tree's directories in their
// place. Outside the workspace that version does not exist before it is tagged, so `go mod tidy` and `go get` in this tree take a proxy that has it.
//
// Read in this order: modules.go proxy.go version.go main.go.
package main
