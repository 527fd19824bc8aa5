package store

import (
	"slices"
	"strings"
)

// Writer is a user that may have written stored values.
type Writer struct {
	Login string // "": the server's default user
	// MayWrite reports whether the user may write the value at a key. Nil: it may write all.
	MayWrite func(space string, key []byte) bool
}

// Writers holds the users that may have written the values of a store, by the rights that they have now. A dictionary
// shows pieces of the values that it was trained on, so it is only for values of which the same user wrote all.
type Writers struct {
	all []Writer // none: unknown
}

// maxWriters limits the users whose rights are compared for each value. With more the writers of all are unknown.
const maxWriters = 256

// FindWriters returns the users that may have written values on the nodes. list lists those of a node; if it fails for
// any, the writers are unknown. unauthenticated is the name of the user of clients that don't log in, for which Login
// is "". If no node lists a user, clients must use own, the user of the store's connections.
func FindWriters[Node any](nodes []Node, list func(Node) ([]Writer, error), own, unauthenticated string) Writers {
	var all []Writer
	for _, n := range nodes {
		some, err := list(n)
		if err != nil {
			return Writers{}
		}
		for _, w := range some {
			if w.Login == unauthenticated {
				w.Login = ""
			}
			at := slices.IndexFunc(all, func(known Writer) bool { return known.Login == w.Login })
			if at < 0 {
				all = append(all, w)
				continue
			}
			all[at].MayWrite = either(all[at].MayWrite, w.MayWrite) // it may have other rights on another node
		}
	}
	everywhere := 0
	for i := range all {
		if all[i].MayWrite == nil {
			everywhere++
		}
	}
	switch {
	case len(all) == 0:
		return Writers{all: []Writer{{Login: own}}}
	case len(all) > maxWriters, everywhere > 1: // then no value has one writer
		return Writers{}
	}
	slices.SortFunc(all, func(a, b Writer) int { return strings.Compare(a.Login, b.Login) })
	return Writers{all}
}

func either(a, b func(space string, key []byte) bool) func(space string, key []byte) bool {
	if a == nil || b == nil {
		return nil
	}
	return func(space string, key []byte) bool { return a(space, key) || b(space, key) }
}

// Of returns the one user that may have written the value at a key, "" for the server's default user. known is false if
// several may have, none may now, or the store's users are unknown. A single user is no exception: a default user that
// is off, or another that was removed, may have written what it may not even read.
func (w Writers) Of(space string, key []byte) (login string, known bool) {
	for i := range w.all {
		if may := w.all[i].MayWrite; may != nil && !may(space, key) {
			continue
		}
		if known {
			return "", false
		}
		login, known = w.all[i].Login, true
	}
	return login, known
}

// Logins returns the users, none if they are unknown.
func (w Writers) Logins() (names []string) {
	for i := range w.all {
		names = append(names, w.all[i].Login)
	}
	return names
}
