// Command k6 is k6 with virtual users of Tarantool that write the documents of test/rig/tarantool/telecom:
//
//	import tarantool from 'k6/x/tarantool'
//	const user = tarantool.user('127.0.0.1:3302', 'docs', 1)
//	export default function () { user.write(7) } // replaces tuple 7; returns milliseconds
//
// It is a module of its own, so that k6 is no dependency of the product.
package main

import (
	"context"
	"time"

	tnt "github.com/tarantool/go-tarantool/v2"
	"go.k6.io/k6/cmd"
	"go.k6.io/k6/js/modules"

	"github.com/cinch-layer/cinch/test/rig/tarantool"
	"github.com/cinch-layer/cinch/test/rig/tarantool/load"
	"github.com/cinch-layer/cinch/test/rig/tarantool/telecom"
)

func main() {
	modules.Register("k6/x/tarantool", module{})
	cmd.Execute()
}

// module is the JavaScript module that scripts import.
type module struct{}

// User returns a user with a connection of its own. k6 makes one for each virtual user.
func (module) User(addr, space string, seed uint64) *User {
	return &User{addr: addr, space: space, documents: telecom.NewGenerator(seed)}
}

// User is one virtual user.
type User struct {
	addr, space string
	documents   *telecom.Generator
	conn        *tnt.Connection // nil before the first write: k6 loads scripts more often than it runs them
	doc         []byte
}

// Write replaces the n-th tuple by the n-th document, and returns the duration in milliseconds.
func (u *User) Write(n int) (float64, error) {
	if u.conn == nil {
		c, err := tarantool.Connect(context.Background(), u.addr)
		if err != nil {
			return 0, err
		}
		u.conn = c
	}
	u.doc = u.documents.Append(u.doc[:0], telecom.Measured(n), n)
	began := time.Now()
	_, err := u.conn.Do(tnt.NewReplaceRequest(u.space).Tuple(load.Row{ID: uint64(n), Body: string(u.doc)})).Get()
	return float64(time.Since(began)) / float64(time.Millisecond), err
}
