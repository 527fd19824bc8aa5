package http

import (
	"maps"
	"sync"
)

// knowledge is what the upstream reads in the bodies of requests: what the operator has said, and what its replies say of
// themselves (RFC 7694), which is about one path each; less what it has refused since.
type knowledge struct {
	always codings

	mu    sync.Mutex
	paths map[string]reads // by host and path
}

// reads is what is known of one path.
type reads struct{ said, refused codings }

// What is remembered: so many paths, and of each so many bytes. Longer ones that begin alike are one.
const (
	knownPaths = 4096
	knownBytes = 512
)

func known(path string) string { return path[:min(len(path), knownBytes)] }

func newKnowledge(always []string) *knowledge {
	k := &knowledge{paths: map[string]reads{}}
	for _, name := range always {
		k.always |= bitOf(name)
	}
	return k
}

// of are the codings that requests to a path may have.
func (k *knowledge) of(path string) codings {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.paths[known(path)]
	return (k.always | r.said) &^ r.refused
}

// learn takes what a reply about a path says.
func (k *knowledge) learn(path string, said codings) {
	k.change(path, func(r *reads) { r.said = said })
}

// refuse takes note of a coding that was refused.
func (k *knowledge) refuse(path, coding string) {
	k.change(path, func(r *reads) { r.refused |= bitOf(coding) })
}

func (k *knowledge) change(path string, f func(*reads)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	path = known(path)
	r, found := k.paths[path]
	f(&r)
	if !found && len(k.paths) >= knownPaths {
		k.forget()
	}
	k.paths[path] = r
}

// forget drops half of the paths, whichever. k.mu is held.
func (k *knowledge) forget() {
	keep := 0
	maps.DeleteFunc(k.paths, func(string, reads) bool {
		keep++
		return keep > knownPaths/2
	})
}
