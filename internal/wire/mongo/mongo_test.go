package mongo

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

func document(t testing.TB, d bson.D) []byte {
	t.Helper()
	b, err := bson.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// build returns an OP_MSG with sections, each of which begins with its kind.
func build(flags uint32, sections ...[]byte) []byte {
	b := AppendHeader(nil, Header{RequestID: 3, ResponseTo: 4, OpCode: OpMsg})
	b = binary.LittleEndian.AppendUint32(b, flags)
	b = append(b, bytes.Join(sections, nil)...)
	if flags&1 != 0 {
		b = append(b, 0, 0, 0, 0)
	}
	PutLength(b)
	if flags&1 != 0 {
		PutChecksum(b)
	}
	return b
}

func body(doc []byte) []byte { return append([]byte{0}, doc...) }

func sequence(name string, docs ...[]byte) []byte {
	b := append([]byte{1, 0, 0, 0, 0}, name...)
	b = append(append(b, 0), bytes.Join(docs, nil)...)
	binary.LittleEndian.PutUint32(b[1:], uint32(len(b)-1))
	return b
}

func TestHeader(t *testing.T) {
	for _, c := range []struct {
		length int32
		op     OpCode
		want   error
	}{
		{15, OpMsg, ErrMalformed},
		{16, OpMsg, nil},
		{MaxMessage, OpMsg, nil},
		{MaxMessage + 1, OpMsg, ErrTooLarge},
		{-1, OpMsg, ErrMalformed},
		{16, 0, ErrOpCode},
		{16, 2010, ErrOpCode},
		{24, OpCompressed, ErrMalformed},
		{25, OpCompressed, nil},
	} {
		b := AppendHeader(nil, Header{Length: int(c.length), RequestID: -5, ResponseTo: 6, OpCode: c.op})
		h, err := ParseHeader(b)
		if !errors.Is(err, c.want) || h.RequestID != -5 || h.ResponseTo != 6 {
			t.Errorf("%+v: %+v, %v", c, h, err)
		}
	}
}

func TestMsg(t *testing.T) {
	ping, one := document(t, bson.D{{Key: "ping", Value: 1}}), document(t, bson.D{{Key: "x", Value: 1}})
	var m Msg
	for _, flags := range []uint32{0, 1, 2, 1 << 16, 1<<16 | 3, 1 << 30} {
		b := build(flags, sequence("documents", one, one), body(ping), sequence("none"))
		if err := m.Parse(b); err != nil {
			t.Fatalf("flags %x: %v", flags, err)
		}
		if !bytes.Equal(m.Body.Of(b), ping) || len(m.Sequences) != 2 || uint32(m.Flags) != flags {
			t.Errorf("flags %x: %+v", flags, m)
		}
		if s := m.Sequences[0]; string(s.Identifier.Of(b)) != "documents" || s.Documents.Len != 2*len(one) {
			t.Errorf("%+v", s)
		}
	}
	good := build(1, body(ping))
	good[len(good)-1] ^= 1
	if err := m.Parse(good); !errors.Is(err, ErrChecksum) {
		t.Errorf("wrong checksum: %v", err)
	}
	for name, b := range map[string][]byte{
		"no flags":                 build(0)[:19],
		"no section":               build(0),
		"only documents":           build(0, sequence("a", one)),
		"two bodies":               build(0, body(ping), body(ping)),
		"unknown flag":             build(4, body(ping)),
		"unknown kind":             build(0, body(ping), []byte{2}),
		"one byte too much":        build(0, body(ping), []byte{0}),
		"document cut":             build(0, body(ping[:len(ping)-1])),
		"document too short":       build(0, body([]byte{4, 0, 0, 0, 0})),
		"document's length < 0":    build(0, body([]byte{0xff, 0xff, 0xff, 0xff, 0})),
		"document not ended":       build(0, body([]byte{6, 0, 0, 0, 0, 1})),
		"too many sequences":       build(0, body(ping), bytes.Repeat(sequence("a"), maxSequences+1)),
		"sequence cut":             build(0, body(ping), sequence("a", one)[:9]),
		"sequence without a name":  build(0, body(ping), []byte{1, 5, 0, 0, 0, 'a'}),
		"sequence of half a thing": build(0, body(ping), sequence("a", one, one[:7])),
		"no room for a checksum":   {22, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xdd, 7, 0, 0, 1, 0, 0, 0, 0, 0},
	} {
		if err := m.Parse(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCompressed(t *testing.T) {
	h := Header{Length: 1000, RequestID: 1, ResponseTo: 2, OpCode: OpMsg}
	b := append(AppendCompressed(nil, h, Zstd), "data"...)
	PutLength(b)
	outer, err := ParseHeader(b)
	if err != nil || outer.OpCode != OpCompressed || outer.Length != len(b) {
		t.Fatal(outer, err)
	}
	c, err := ParseCompressed(outer, b)
	if err != nil || c.Header != h || c.Compressor != Zstd {
		t.Fatalf("%+v, %v", c, err)
	}
	for _, bad := range []struct {
		at   int
		with int32
		want error
	}{
		{16, int32(OpCompressed), ErrNested},
		{16, 5, ErrOpCode},
		{20, -1, ErrMalformed},
		{20, MaxMessage - HeaderLen + 1, ErrTooLarge},
		{20, 0x7fffffff, ErrTooLarge},
	} {
		b := bytes.Clone(b)
		binary.LittleEndian.PutUint32(b[bad.at:], uint32(bad.with))
		if _, err := ParseCompressed(outer, b); !errors.Is(err, bad.want) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestQueryAndReply(t *testing.T) {
	doc := document(t, bson.D{{Key: "isMaster", Value: 1}})
	head := append(AppendHeader(nil, Header{OpCode: OpQuery}), 0, 0, 0, 0)
	query := append(append(head, "admin.$cmd\x00\x00\x00\x00\x00\x01\x00\x00\x00"...), doc...)
	q, err := ParseQuery(query)
	if err != nil || !q.IsCommand(query) || !bytes.Equal(q.Document.Of(query), doc) {
		t.Fatalf("%+v, %v", q, err)
	}
	if _, err := ParseQuery(append(bytes.Clone(query), doc...)); err != nil {
		t.Errorf("with a selector: %v", err)
	}
	for n := range query[:len(query)-1] {
		if n < HeaderLen {
			continue
		}
		if _, err := ParseQuery(query[:n]); !errors.Is(err, ErrMalformed) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	reply := append(AppendHeader(nil, Header{OpCode: OpReply}), make([]byte, 16)...)
	reply = append(append(append(reply, 2, 0, 0, 0), doc...), doc...)
	first, err := ParseReply(reply)
	if err != nil || !bytes.Equal(first.Of(reply), doc) {
		t.Fatalf("%+v, %v", first, err)
	}
	binary.LittleEndian.PutUint32(reply[32:], 3)
	if _, err := ParseReply(reply); !errors.Is(err, ErrMalformed) {
		t.Errorf("a document less than declared: %v", err)
	}
}

func TestReplace(t *testing.T) {
	old, other := document(t, bson.D{{Key: "a", Value: 1}}), document(t, bson.D{{Key: "another", Value: "document"}})
	for _, flags := range []uint32{0, 1} {
		b := build(flags, body(old), sequence("x", old))
		var m Msg
		if err := m.Parse(b); err != nil {
			t.Fatal(err)
		}
		got := Replace([]byte("before"), b, m.Body, other, flags == 1)[6:]
		if want := build(flags, body(other), sequence("x", old)); !bytes.Equal(got, want) {
			t.Errorf("flags %d:\n%x\n%x", flags, got, want)
		}
	}
}

func FuzzMessage(f *testing.F) {
	ping := document(f, bson.D{{Key: "ping", Value: 1}, {Key: "$db", Value: "a"}})
	f.Add(build(1, body(ping), sequence("a", ping)))
	f.Add(build(0, body(ping)))
	f.Add(append(AppendHeader(nil, Header{Length: 60, OpCode: OpQuery}), "\x00\x00\x00\x00a.$cmd\x00\x00\x00\x00\x00\x00\x00\x00\x00"+string(ping)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < HeaderLen {
			return
		}
		h, err := ParseHeader(b)
		if err != nil || h.Length != len(b) {
			return
		}
		switch h.OpCode {
		case OpMsg:
			var m Msg
			if m.Parse(b) == nil {
				checkMsg(t, &m, b)
			}
		case OpQuery:
			if q, err := ParseQuery(b); err == nil {
				checkDocument(t, q.Document.Of(b))
			}
		case OpReply:
			if first, err := ParseReply(b); err == nil && first.Len > 0 {
				checkDocument(t, first.Of(b))
			}
		case OpCompressed:
			if c, err := ParseCompressed(h, b); err == nil && (c.Length < HeaderLen || c.Length > MaxMessage) {
				t.Errorf("a length of %d passed", c.Length)
			}
		}
	})
}

// checkMsg checks that the spans cover the message, and that replacing the body by itself changes nothing.
func checkMsg(t *testing.T, m *Msg, b []byte) {
	t.Helper()
	covered := HeaderLen + 4 + 1 + m.Body.Len
	for _, s := range m.Sequences {
		covered += 1 + 4 + s.Identifier.Len + 1 + s.Documents.Len
	}
	if m.Flags&ChecksumPresent != 0 {
		covered += checksumLen
	}
	if covered != len(b) {
		t.Errorf("the spans cover %d bytes of %d", covered, len(b))
	}
	checkDocument(t, m.Body.Of(b))
	same := Replace(nil, b, m.Body, m.Body.Of(b), m.Flags&ChecksumPresent != 0)
	if !bytes.Equal(same, b) {
		t.Errorf("replaced by itself it became\n%x\n%x", same, b)
	}
}

func checkDocument(t *testing.T, doc []byte) {
	t.Helper()
	again := []byte{0, 0, 0, 0}
	err := Elements(doc, func(e Element) bool {
		again = append(again, e.Of(doc)...)
		_, _ = Document(e.Value), Text(e.Value)
		if e.Value.Type == bsoncore.Type(0) {
			t.Error("an element without a type")
		}
		return true
	})
	if err == nil && !bytes.Equal(FinishDocument(again, 0), doc) {
		t.Errorf("the elements of\n%x are\n%x", doc, again)
	}
}
