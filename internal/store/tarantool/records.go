package tarantool

import (
	"context"
	"strings"

	tnt "github.com/tarantool/go-tarantool/v2"
	"github.com/vmihailenco/msgpack/v5"
)

// records reads and writes texts by name in a space of the server, which gateways and packers share.
type records struct{ conn *Conn }

// leasesRecord is the record by which background packers take turns. It is JSON: for each lease's name, the
// holder and until when. The next writer removes entries that have ended.
const leasesRecord = "cinch:pack"

// Record returns the text stored under a name, and its version; "" and 0 if there is none.
func (r *records) Record(ctx context.Context, name string) (string, uint64, error) {
	now, err := r.record(ctx, name)
	return now.Text, now.Version, err
}

// ReplaceRecord stores a new text and returns its version, or 0 if the given version is no longer the current
// one.
func (r *records) ReplaceRecord(ctx context.Context, name string, version uint64, content string) (uint64, error) {
	now, err := r.record(ctx, name, version, content)
	return now.Version, err
}

func (r *records) record(ctx context.Context, args ...any) (now storedRecord, err error) {
	err = r.conn.call(ctx, recordFunction, args, &now)
	return now, err
}

type storedRecord struct {
	//lint:ignore U1000 its tag makes msgpack encode a list
	_msgpack struct{} `msgpack:",as_array"`
	Version  uint64
	Text     string
}

// Records returns all texts by name, except those that begin with leasesRecord.
func (r *records) Records(ctx context.Context) (map[string]string, error) {
	id, err := spaceNumber(ctx, r.conn, recordSpace)
	if err != nil {
		return nil, err
	}
	var tuples []struct {
		//lint:ignore U1000 its tag makes msgpack encode a list
		_msgpack struct{} `msgpack:",as_array"`
		Name     string
		Version  msgpack.RawMessage
		Text     string
	}
	err = r.conn.do(ctx, func(ctx context.Context) tnt.Request {
		return tnt.NewSelectRequest(id).Index(uint32(0)).Limit(selectEverything).Iterator(tnt.IterAll).Context(ctx)
	}, &tuples)
	all := map[string]string{}
	for _, t := range tuples {
		if t.Text != "" && !strings.HasPrefix(t.Name, leasesRecord) {
			all[t.Name] = t.Text
		}
	}
	return all, err
}

// DeleteRecord removes a text unless its version has changed.
func (r *records) DeleteRecord(ctx context.Context, name string, version uint64) (bool, error) {
	next, err := r.ReplaceRecord(ctx, name, version, "")
	return next != 0, err
}
