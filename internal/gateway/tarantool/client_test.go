package tarantool

import (
	"testing"
	"time"

	tnt "github.com/tarantool/go-tarantool/v2"

	"github.com/cinch-layer/cinch/internal/policy"
)

// connectAs connects with a driver.
func connectAs(t *testing.T, addr, user, password string) (*tnt.Connection, error) {
	t.Helper()
	return tnt.Connect(t.Context(), tnt.NetDialer{Address: addr, User: user, Password: password}, tnt.Opts{Timeout: time.Minute})
}

// updateDoc splices a document's first byte.
func updateDoc(id int, with string) tnt.Request {
	return tnt.NewUpdateRequest("docs").Key([]any{id}).Operations(tnt.NewOperations().Splice(2, 0, 1, with))
}

// TestDriver uses a driver that reads the schema, names spaces and sends several requests at a time.
func TestDriver(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	c, err := connectAs(t, b.addr, "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const n = 500
	var futures []*tnt.Future
	for i := range n {
		futures = append(futures, c.Do(tnt.NewReplaceRequest("docs").Tuple([]any{i, "tag", document(i)})))
	}
	for _, f := range futures {
		if _, err := f.Get(); err != nil {
			t.Fatal(err)
		}
	}
	futures = futures[:0]
	for i := range n {
		futures = append(futures, c.Do(tnt.NewSelectRequest("docs").Key([]any{i})))
	}
	for i, f := range futures {
		got, err := f.Get()
		if err != nil {
			t.Fatal(err)
		}
		if doc := got[0].([]any)[2]; doc != document(i) {
			t.Fatalf("%d: %.60q", i, doc)
		}
	}
	b.check(b.client(), 7, document(7), true)
	if snap := b.stats.Snapshot(); snap.Total.Sealed < n || snap.Total.Opened < n {
		t.Errorf("%d sealed, %d opened", snap.Total.Sealed, snap.Total.Opened)
	}
}
