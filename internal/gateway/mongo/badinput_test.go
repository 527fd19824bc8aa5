package mongo

import (
	"bytes"
	"encoding/binary"
	"net"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// badInput is input that no driver sends, with the error class that it counts as.
type badInput struct {
	name, class string
	bytes       []byte
}

// Bad input must not reach the server or harm other clients. The connection is closed although the client
// still waits.
func TestBadInput(t *testing.T) {
	tap := taped(t)
	c := dialRaw(t, tap.addr) // used for its codecs
	for _, bad := range changedMessages(c) {
		t.Run(bad.name, func(t *testing.T) { refused(t, tap, bad, false) })
	}
	zstd := c.compress(wire.Zstd, badFind())
	t.Run("truncated", func(t *testing.T) { refused(t, tap, badInput{"", "truncated", zstd[:len(zstd)-1]}, true) })
}

// The same for input where the client ends its side after sending.
func TestMoreBadInput(t *testing.T) {
	tap := taped(t)
	c := dialRaw(t, tap.addr)
	for _, all := range [][]badInput{badSections(), badCompression(c), strangeProtocols()} {
		for _, bad := range all {
			t.Run(bad.name, func(t *testing.T) { refused(t, tap, bad, true) })
		}
	}
}

func refused(t *testing.T, server *tap, bad badInput, ends bool) {
	t.Helper()
	s := serve(t, server.addr, withZstd)
	raw := dialRaw(t, s.addr)
	raw.run(plain, hello("zstd", "zlib", "snappy"))
	server.take()
	raw.write(bad.bytes)
	if ends {
		_ = raw.conn.(*net.TCPConn).CloseWrite()
	}
	expectClosed(t, s, raw, bad.class)
	if requests, _ := server.take(); len(requests) > 0 {
		t.Error("it reached the server")
	}
}

// badFind returns the valid message that bad ones are made from.
func badFind() []byte {
	return opMsg(7, 0, command("find", "users", bson.E{Key: "comment", Value: strings.Repeat("abc", 500)}))
}

// change returns a copy of b with other bytes at an offset.
func change(b []byte, at int, with ...byte) []byte {
	b = bytes.Clone(b)
	copy(b[at:], with)
	return b
}

// joined joins the parts to one message, and corrects its length.
func joined(parts ...[]byte) []byte {
	m := bytes.Join(parts, nil)
	wire.PutLength(m)
	return m
}

func int32s(n int32) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(n)) }

func changedMessages(c *rawClient) []badInput {
	find := badFind()
	zstd, zlib := c.compress(wire.Zstd, find), c.compress(wire.Zlib, find)
	return []badInput{
		{"nested", "nested", c.compress(wire.Noop, zstd)},
		{"inflated size, zstd", "corrupt", change(zstd, 20, 0xff, 0xff, 0xff, 0)},
		{"inflated size, zlib", "corrupt", change(zlib, 20, 0xff, 0xff, 0, 0)},
		{"size too small", "corrupt", change(zlib, 20, 16, 0, 0, 0)},
		{"negative size", "malformed", change(zstd, 20, 0xff, 0xff, 0xff, 0xff)},
		{"size above the limit", "too_large", change(zstd, 20, 0, 0, 0, 0x7f)},
		{"trailing bytes", "corrupt", joined(zstd, []byte("trailing"))},
		{"unknown compressor", "compressor", change(zstd, 24, 9)},
		{"unknown opcode", "opcode", change(find, 12, 99)},
		{"unknown opcode within", "opcode", change(zstd, 16, 99)},
		{"negative length", "malformed", change(find, 0, 0xff, 0xff, 0xff, 0xff)},
		{"length of 3", "malformed", change(find, 0, 3, 0, 0, 0)},
		{"length above the limit", "too_large", change(find, 0, 0, 0, 0, 4)},
		{"unknown flags", "malformed", change(find, 16, 4)},
		{"unknown section", "malformed", change(find, 20, 9)},
		{"no end of the document", "malformed", change(find, len(find)-1, 1)},
		{"a reply", "malformed", change(find, 12, 1, 0, 0, 0)},
		{"random", "malformed", codecNoise(make([]byte, 1000))},
	}
}

func badSections() []badInput {
	find := badFind()
	section := func(kind byte, b ...byte) []byte { return joined(find, []byte{kind}, b) }
	return []badInput{
		{"no flags", "malformed", joined(find[:16])},
		{"half of the flags", "malformed", joined(find[:18])},
		{"no section", "malformed", joined(find[:20])},
		{"half of a section", "malformed", joined(find[:23])},
		{"negative document", "malformed", change(find, 21, int32s(-5)...)},
		{"document of 4 bytes", "malformed", change(find, 21, int32s(4)...)},
		{"document beyond the message", "malformed", change(find, 21, int32s(1<<30)...)},
		{"two bodies", "malformed", section(0, 5, 0, 0, 0, 0)},
		{"negative section", "malformed", section(1, int32s(-1)...)},
		{"huge section", "malformed", section(1, append(int32s(1<<30), "a\x00"...)...)},
		{"section without an end of its name", "malformed", section(1, append(int32s(8), "abcd"...)...)},
		{"section with half a document", "malformed", section(1, append(int32s(9), "a\x00\x09\x00\x00"...)...)},
		{"very many sections", "malformed", joined(find, bytes.Repeat([]byte{1, 6, 0, 0, 0, 'a', 0}, 1000))},
		{"no command", "malformed", opMsg(1, 0, bson.D{})},
	}
}

func badCompression(c *rawClient) []badInput {
	find := badFind()
	zstd, snappy, zlib := c.compress(wire.Zstd, find), c.compress(wire.Snappy, find), c.compress(wire.Zlib, find)
	huge := wire.AppendHeader(nil, wire.Header{Length: wire.MaxMessage, RequestID: 1, OpCode: wire.OpCompressed})
	message, compressed := int32s(int32(wire.OpMsg)), int32s(int32(wire.OpCompressed))
	return []badInput{
		{"sizes at their limits", "too_large", bytes.Join([][]byte{huge, message, int32s(1<<31 - 1), {3}}, nil)},
		{"compressed, nothing in it", "corrupt", frameOf(find[:16], nil, wire.Noop)},
		{"compressed to less than a header", "malformed", joined(find[:12], compressed, make([]byte, 4))},
		{"compressed reply", "malformed", change(zstd, 16, int32s(1)...)},
		{"id 254", "compressor", frameOf(find, find[16:], 254)},
		{"id 255", "compressor", frameOf(find, find[16:], 255)},
		{"id 255 around what has no body", "compressor", change(frameOf(find, find[16:], 255), 16, int32s(int32(wire.OpKillCursors))...)},
		{"snappy with another size", "corrupt", change(snappy, 25, snappy[25]^1)},
		{"snappy of nothing but a size", "corrupt", frameOf(find, []byte{0xff, 0xff, 0xff, 0xff, 0x0f}, wire.Snappy)},
		{"zlib without its end", "corrupt", joined(zlib[:len(zlib)-4])},
		{"zlib with another checksum", "corrupt", change(zlib, len(zlib)-1, zlib[len(zlib)-1]^1)},
	}
}

// strangeProtocols returns damaged messages of old drivers, and messages of other protocols.
func strangeProtocols() []badInput {
	query := wire.AppendHeader(nil, wire.Header{RequestID: 1, OpCode: wire.OpQuery})
	return []badInput{
		{"old query without an end of its name", "malformed", joined(query, []byte("\x00\x00\x00\x00admin.$cmd"))},
		{"old query without a document", "malformed", joined(query, []byte("\x00\x00\x00\x00admin.$cmd\x00\x00\x00\x00\x00\x01\x00\x00\x00"))},
		{"HTTP", "opcode", []byte("\x40\x00\x00\x00GET / HTTP/1.1\r\nHost: db\r\n\r\n")},
		{"a request of a browser", "too_large", []byte("GET / HTTP/1.1\r\nHost: db\r\n\r\n")},
		{"TLS where there is none", "malformed", []byte("\x16\x03\x01\x80" + strings.Repeat("\x16\x03\x01\x02", 20))},
	}
}
