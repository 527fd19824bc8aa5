package pairs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/codec"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
	"github.com/cinch-layer/cinch/test/testenv"
)

func TestMongo(t *testing.T) { compareAll(t, overMongo, []string{"zstd"}, overLinks) }

func overMongo(t *testing.T, s *sequence) (one, pair, links int64) {
	const rules = "rules: [{setting: zstd-3}]"
	dialogs := s.dialogs()
	server := startMongo(t, dialogs)

	alone := startWire(t, server)
	single := gateway(t, "mongo", "mongodb://"+alone.Addr, rules)
	var since func() (up, down int64)
	s.play(t, 1, func() { since = alone.mark() }, s.mongoClients(t, single, dialogs), once)
	up, down := since()

	between := startWire(t, gateway(t, "mongo", "mongodb://"+server, "peers: true, "+rules))
	near := gateway(t, "mongo", "mongodb://"+between.Addr, rules)
	return up + down, s.playLinked(t, 1, between, s.mongoClients(t, near, dialogs)), between.links.Load()
}

// dialog holds an exchange as a message to mongod and its reply.
type dialog struct{ request, reply []byte }

// firstID is the smallest request ID of dialogs. The gateway's own requests have smaller ones.
const firstID = 1000

// dialogs makes MongoDB messages from all exchanges. Half of the small ones are replaced by recorded messages.
func (s *sequence) dialogs() (all [][]dialog) {
	recordings := recorded().commands
	for c, exchanges := range s.clients {
		var dialogs []dialog
		for i, x := range exchanges {
			id := int32(firstID + len(s.clients)*i + c)
			d := dialog{
				opMsg(bson.D{{Key: "insert", Value: "items"}, {Key: "documents", Value: bson.A{document(i, x.request)}}, {Key: "$db", Value: "shop"}}),
				opMsg(bson.D{{Key: "cursor", Value: bson.D{{Key: "firstBatch", Value: bson.A{document(i, x.reply)}}, {Key: "id", Value: int64(0)}, {Key: "ns", Value: "shop.items"}}}, {Key: "ok", Value: 1.0}}),
			}
			if len(x.request) < 2000 && i%2 == 0 {
				recording := recordings[(int(s.seed)*7919+i*31)%len(recordings)]
				d = dialog{bytes.Clone(recording.request), bytes.Clone(recording.reply)}
			}
			binary.LittleEndian.PutUint32(d.request[4:], uint32(id))
			binary.LittleEndian.PutUint32(d.reply[8:], uint32(id))
			dialogs = append(dialogs, d)
		}
		all = append(all, dialogs)
	}
	return all
}

// document returns a document that holds the bytes of a message: as lines if they are text.
func document(i int, content []byte) bson.D {
	d := bson.D{{Key: "_id", Value: i}}
	if bytes.IndexByte(content, 0) >= 0 {
		return append(d, bson.E{Key: "content", Value: content})
	}
	var lines bson.A
	for line := range bytes.Lines(content) {
		lines = append(lines, string(line))
	}
	return append(d, bson.E{Key: "lines", Value: lines})
}

// opMsg returns an OP_MSG with a body.
func opMsg(doc bson.D) []byte {
	body, err := bson.Marshal(doc)
	if err != nil {
		panic(err)
	}
	b := append(wire.AppendHeader(nil, wire.Header{OpCode: wire.OpMsg}), 0, 0, 0, 0, 0)
	b = append(b, body...)
	wire.PutLength(b)
	return b
}

var engine = codec.New(codec.Options{Zstd: native()})

// compressed returns a message compressed with zstd.
func compressed(message []byte, level int) []byte {
	h, err := wire.ParseHeader(message)
	if err != nil {
		panic(err)
	}
	b := append(wire.AppendCompressed(nil, h, wire.Zstd), wire.ZstdMagic...)
	if b, err = engine.Compress(b, message[wire.HeaderLen:], codec.Setting{Codec: codec.Zstd, Level: level}, nil); err != nil {
		panic(err)
	}
	wire.PutLength(b)
	return b
}

// readMessage reads a message, and decompresses it.
func readMessage(r io.Reader) (message []byte, wasCompressed bool, err error) {
	b := make([]byte, wire.HeaderLen)
	if _, err = io.ReadFull(r, b); err != nil {
		return nil, false, err
	}
	h, err := wire.ParseHeader(b)
	if err != nil {
		return nil, false, err
	}
	b = append(b, make([]byte, h.Length-len(b))...)
	if _, err = io.ReadFull(r, b[wire.HeaderLen:]); err != nil || h.OpCode != wire.OpCompressed {
		return b, false, err
	}
	inner, err := wire.ParseCompressed(h, b)
	if err != nil {
		return nil, true, err
	}
	if inner.Compressor != wire.Zstd {
		return nil, true, fmt.Errorf("compressor %d", inner.Compressor)
	}
	payload := b[wire.CompressedHeaderLen+len(wire.ZstdMagic):]
	message, err = engine.Decompress(wire.AppendHeader(nil, inner.Header), payload, codec.Zstd, inner.Length-wire.HeaderLen, nil)
	return message, true, err
}

// startMongo starts a server that answers with the replies of all dialogs. Like mongod, it compresses the replies to
// compressed requests.
func startMongo(t *testing.T, all [][]dialog) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	testenv.AcceptEach(t, l, func(conn net.Conn) {
		defer conn.Close()
		for {
			request, wasCompressed, err := readMessage(conn)
			if err != nil {
				return
			}
			reply := ownReply(request)
			if reply == nil {
				i := int(binary.LittleEndian.Uint32(request[4:])) - firstID
				d := all[i%len(all)][i/len(all)]
				if !bytes.Equal(request, d.request) {
					t.Errorf("request %d: the server got %d bytes, not the %d that were sent", i, len(request), len(d.request))
				}
				reply = d.reply
			}
			if wasCompressed {
				if packed := compressed(reply, 3); len(packed) < len(reply) {
					reply = packed
				}
			}
			if _, err := conn.Write(reply); err != nil {
				return
			}
		}
	})
	return l.Addr().String()
}

// ownReply returns the reply to a hello or another request of a gateway itself, or nil if the request is part of a
// dialog.
func ownReply(request []byte) (reply []byte) {
	h, _ := wire.ParseHeader(request)
	hello := bson.D{
		{Key: "isWritablePrimary", Value: true},
		{Key: "ismaster", Value: true},
		{Key: "maxBsonObjectSize", Value: 16 << 20},
		{Key: "maxMessageSizeBytes", Value: wire.MaxMessage},
		{Key: "maxWriteBatchSize", Value: 100_000},
		{Key: "minWireVersion", Value: 0},
		{Key: "maxWireVersion", Value: 17},
		{Key: "compression", Value: bson.A{"zstd"}},
		{Key: "ok", Value: 1.0},
	}
	switch {
	case h.OpCode == wire.OpQuery:
		doc, _ := bson.Marshal(hello)
		reply = wire.AppendHeader(nil, wire.Header{OpCode: wire.OpReply, ResponseTo: h.RequestID})
		reply = append(reply, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0)
		reply = append(reply, doc...)
		wire.PutLength(reply)
		return reply
	case h.RequestID < firstID:
		var m wire.Msg
		if m.Parse(request) != nil {
			return nil
		}
		name, _ := wire.First(m.Body.Of(request))
		if reply = opMsg(bson.D{{Key: "ok", Value: 1.0}}); string(name.Key) == "hello" {
			reply = opMsg(hello)
		}
		binary.LittleEndian.PutUint32(reply[8:], uint32(h.RequestID))
	}
	return reply
}

// mongoClients returns a function that makes the clients of a sequence.
func (s *sequence) mongoClients(t *testing.T, addr string, all [][]dialog) func(c int) client {
	return func(c int) client {
		var conn net.Conn
		run := func(request []byte) (reply []byte, err error) {
			if _, err = conn.Write(request); err == nil {
				reply, _, err = readMessage(conn)
			}
			return reply, err
		}
		connect := func() {
			if conn != nil {
				_ = conn.Close()
			}
			var err error
			if conn, err = net.Dial("tcp", addr); err != nil {
				t.Fatal(err)
			}
			hello := opMsg(bson.D{{Key: "hello", Value: 1}, {Key: "compression", Value: bson.A{"zstd"}}, {Key: "$db", Value: "admin"}})
			hello[4] = 1
			if _, err := run(hello); err != nil {
				t.Error(err)
			}
		}
		return client{
			prepare: connect, // a connection that began without a link never gets one
			exchange: func(i int, _ exchange) {
				d := all[c][i]
				request := d.request
				if s.coding == "zstd" {
					request = compressed(request, 6) // as drivers do by default
				}
				if reply, err := run(request); err != nil || !bytes.Equal(reply, d.reply) {
					t.Errorf("exchange %d of client %d: the client got %d bytes, not the %d that were sent, %v", i, c, len(reply), len(d.reply), err)
				}
			},
			close: func() { _ = conn.Close() },
		}
	}
}
