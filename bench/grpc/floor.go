package main

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/libzstd"
	"github.com/cinch-layer/cinch/test/rig"
)

// Nothing makes the random ids of traces and spans in OTLP shorter. An id that occurs several times in a
// message counts once.

// idFields lists the paths of ids in the exports, as field numbers from the message down.
var idFields = map[string][][]protowire.Number{
	"traces": {{1, 2, 2, 1}, {1, 2, 2, 2}, {1, 2, 2, 4}, {1, 2, 2, 13, 1}, {1, 2, 2, 13, 2}},
	"logs":   {{1, 2, 2, 9}, {1, 2, 2, 10}},
	"metrics": {
		{1, 2, 2, 5, 1, 5, 4},
		{1, 2, 2, 5, 1, 5, 5},
		{1, 2, 2, 7, 1, 5, 4},
		{1, 2, 2, 7, 1, 5, 5},
		{1, 2, 2, 9, 1, 8, 4},
		{1, 2, 2, 9, 1, 8, 5},
	},
}

// gatherIDs adds the values at a path to ids.
func gatherIDs(ids map[string]bool, message []byte, path []protowire.Number) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return
		}
		size := protowire.ConsumeFieldValue(number, kind, message[n:])
		if size < 0 {
			return
		}
		if number == path[0] && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message[n:])
			if len(path) == 1 {
				ids[string(value)] = true
			} else {
				gatherIDs(ids, value, path[1:])
			}
		}
		message = message[n+size:]
	}
}

// idBytes returns the total length of the distinct ids of each message.
func (p payload) idBytes() (n int) {
	for _, m := range p.messages {
		ids := make(map[string]bool)
		for _, path := range idFields[p.name] {
			gatherIDs(ids, m, path)
		}
		for id := range ids {
			n += len(id)
		}
	}
	return n
}

// hardestZstd returns the total length of all messages compressed by libzstd at level 19, or 0 without
// libzstd.
func (p payload) hardestZstd() (n int, err error) {
	lib, ok := libzstd.New()
	if !ok {
		return 0, nil
	}
	engine := codec.New(codec.Options{Zstd: lib})
	var b []byte
	for _, m := range p.messages {
		if b, err = engine.Compress(b[:0], m, codec.Setting{Codec: codec.Zstd, Level: 19}, nil); err != nil {
			return 0, err
		}
		n += len(b)
	}
	return n, nil
}

// floor holds the total compressed lengths of a payload's messages, and of their ids.
type floor struct {
	name                      string
	zstd, hardest, proto, ids int
}

func (f floor) row(t *rig.Table) {
	share := func(part, of int) string { return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(of)) }
	t.Row(f.name, fmt.Sprint(f.zstd), fmt.Sprint(f.hardest), fmt.Sprint(f.proto), fmt.Sprint(f.ids),
		share(f.zstd-f.proto, f.zstd), share(f.zstd-f.proto, f.zstd-f.ids), share(f.zstd-f.ids, f.zstd))
}

// floors writes the table of possible and achieved savings compared with zstd.
func floors(t *rig.Table, all []excess) error {
	t.WriteString("### What is random in OTLP\n\n")
	t.Row("payload", "bytes of zstd", "of zstd 19", "of cinch-proto", "of random ids, each once a message", "saved", "of what is not ids", "at most to be saved, if all else took nothing")
	t.Rule(8)
	sum := floor{name: "all three"}
	for _, x := range all {
		if idFields[x.payload.name] == nil {
			continue
		}
		hardest, err := x.payload.hardestZstd()
		if err != nil {
			return err
		}
		f := floor{x.payload.name, x.zstd, hardest, x.proto, x.payload.idBytes()}
		f.row(t)
		sum.zstd, sum.hardest, sum.proto, sum.ids = sum.zstd+f.zstd, sum.hardest+f.hardest, sum.proto+f.proto, sum.ids+f.ids
	}
	sum.row(t)
	t.WriteString("\n")
	return nil
}
