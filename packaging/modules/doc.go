// Command modules packs this tree's Go modules as a module proxy would serve them, so that the steps users
// take with a release can be tested before it exists.
//
//	go run ./packaging/modules check                      # is each module one that `go get` takes?
//	go run ./packaging/modules proxy /tmp/proxy           # GOPROXY=file:///tmp/proxy serves them
//	go run ./packaging/modules set v0.2.0                 # the version that the modules require of each other
//	go run ./packaging/modules tidy                       # go mod tidy, against the modules of this tree
//
// The modules require each other at one version, that of the next release; go.work replaces them with this
// tree's directories. Outside the workspace that version does not exist before it is tagged, so `go mod tidy`
// and `go get` in this tree need a proxy that serves it.
//
// Read in this order: modules.go proxy.go version.go main.go.
package main
