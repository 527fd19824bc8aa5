package limits

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	tarantool "github.com/tarantool/go-tarantool/v2"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/test/mongotest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// Attackers use as much of a gateway's memory as they can. A victim's request is answered all the same, at
// the attacked gateway and at the others of the process. The attack lasts until the end of each test.

// answered limits how long a victim waits on the busiest machine. It includes the seconds until slow peers
// are detected.
const answered = 2 * time.Minute

// lineup is one process with a gateway for each protocol. All its servers but Redis are shared with other
// lineups.
type lineup struct {
	redis    *testenv.RedisServer
	gateway  *testenv.GatewayServer
	mongoAt  string
	tarantAt string
}

func startLineup(t *testing.T, args ...string) *lineup {
	t.Helper()
	mongod := testenv.Shared(t, "mongod", func(t testing.TB) *mongotest.Server { return mongotest.Start(t, mongotest.Config{}) })
	tarantool := testenv.Shared(t, "tarantool", func(t testing.TB) *testenv.TarantoolServer { return testenv.Tarantool(t, spaceForVictims) })
	l := &lineup{redis: testenv.Redis(t)}
	l.mongoAt, l.tarantAt = freeAddr(t), freeAddr(t)
	l.gateway = testenv.Gateway(t, testenv.GatewayConfig{Upstream: l.redis.Addr, Args: append([]string{
		"--mongo", l.mongoAt + "=mongodb://" + mongod.Addr, "--tarantool", l.tarantAt + "=tarantool://" + tarantool.Addr,
	}, args...)})
	return l
}

func freeAddr(t *testing.T) string {
	return fmt.Sprint("127.0.0.1:", testenv.FreePort(t))
}

const spaceForVictims = `local s = box.schema.space.create('victims', {if_not_exists = true})
s:create_index('pk', {if_not_exists = true})`

// everybodyIsServed has a victim at each gateway send and receive 100 KB.
func (l *lineup) everybodyIsServed(t *testing.T) {
	t.Helper()
	value := document(100<<10, 9)
	c := mustDial(t, l.gateway.Addr)
	_ = c.SetDeadline(time.Now().Add(answered))
	if err := c.roundTrip(value); err != nil {
		t.Errorf("Redis: %v", err)
	}
	if err := mongoRoundTrip(t, "mongodb://"+l.mongoAt+"/?directConnection=true", value); err != nil {
		t.Errorf("MongoDB: %v", err)
	}
	if err := tarantoolRoundTrip(t, l.tarantAt, tarantool.NetDialer{Address: l.tarantAt}, value); err != nil {
		t.Errorf("Tarantool: %v", err)
	}
}

func mongoRoundTrip(t *testing.T, uri string, value []byte) error {
	t.Helper()
	c, err := mongo.Connect(options.Client().ApplyURI(uri).SetTimeout(answered))
	if err != nil {
		return err
	}
	defer func() { _ = c.Disconnect(t.Context()) }()
	things := c.Database("limits").Collection("things")
	added, err := things.InsertOne(t.Context(), bson.D{{Key: "value", Value: value}})
	if err != nil {
		return err
	}
	var got struct{ Value []byte }
	if err = things.FindOne(t.Context(), bson.D{{Key: "_id", Value: added.InsertedID}}).Decode(&got); err == nil && string(got.Value) != string(value) {
		err = fmt.Errorf("%d other bytes", len(got.Value))
	}
	return err
}

func tarantoolRoundTrip(t *testing.T, addr string, dialer tarantool.NetDialer, value []byte) error {
	t.Helper()
	c, err := tarantool.Connect(t.Context(), dialer, tarantool.Opts{Timeout: answered})
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err = c.Do(tarantool.NewReplaceRequest("victims").Tuple([]any{1, string(value)})).Get(); err != nil {
		return err
	}
	rows, err := c.Do(tarantool.NewSelectRequest("victims").Key([]any{1})).Get()
	if err == nil && fmt.Sprint(rows) != fmt.Sprint([]any{[]any{1, string(value)}}) {
		err = fmt.Errorf("%d other tuples", len(rows))
	}
	return err
}

// drip sends first, and then eight bytes a second until the end of the test.
func drip(t *testing.T, c net.Conn, first ...[]byte) {
	t.Helper()
	_ = c.SetWriteDeadline(time.Now().Add(answered))
	bufs := net.Buffers(first)
	if _, err := bufs.WriteTo(c); err != nil {
		t.Logf("an attacker was cut off while it sent: %v", err)
		return
	}
	go func() {
		for {
			if _, err := c.Write(make([]byte, 8)); err != nil {
				return
			}
			time.Sleep(time.Second)
		}
	}()
}

func mongoHeader(length int) []byte {
	h := make([]byte, 21)
	binary.LittleEndian.PutUint32(h, uint32(length))
	binary.LittleEndian.PutUint32(h[4:], 1)
	binary.LittleEndian.PutUint32(h[12:], 2013)
	return h
}

func TestMongoMessagesThatDrip(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string]int{"from the beginning": 0, "behind 20 MB": 20 * mb} {
		t.Run(name, func(t *testing.T) {
			if sent == 0 {
				testenv.Full(t)
			}
			l := startLineup(t)
			for range 4 {
				drip(t, mustDial(t, l.mongoAt), mongoHeader(47_000_000), make([]byte, sent))
			}
			l.everybodyIsServed(t)
			mustStayUnder(t, l.gateway.Pid(), limitTotal)
		})
	}
}

// The user guest has all privileges here, so no client counts as unauthenticated.
func TestTarantoolFramesThatDrip(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string]int{"from the beginning": 0, "behind 60 MB": 60 * mb} {
		t.Run(name, func(t *testing.T) {
			if sent == 0 {
				testenv.Full(t)
			}
			l := startLineup(t)
			c := mustDial(t, l.tarantAt)
			if _, err := io.ReadFull(c, make([]byte, 128)); err != nil {
				t.Fatal(err)
			}
			drip(t, c, binary.BigEndian.AppendUint32([]byte{0xce}, 500*mb), make([]byte, sent))
			l.everybodyIsServed(t)
			mustStayUnder(t, l.gateway.Pid(), limitTotal)
		})
	}
}

func TestRedisValuesThatDrip(t *testing.T) {
	t.Parallel()
	l := startLineup(t)
	bigValue(t, l.gateway)
	for i := range codectest.Amount(50, 50, 100) {
		drip(t, mustDial(t, l.gateway.Addr), fmt.Appendf(nil, "*3\r\n$3\r\nSET\r\n$4\r\nk%03d\r\n$%d\r\n", i, 30*mb), make([]byte, mb))
	}
	l.everybodyIsServed(t)
	l.valuesAreSealedAndGuarded(t)
	mustStayUnder(t, l.gateway.Pid(), limitTotal)
}

// valuesAreSealedAndGuarded checks that values are compressed and commands accepted, in spite of the memory
// in use.
func (l *lineup) valuesAreSealedAndGuarded(t *testing.T) {
	t.Helper()
	c := mustDial(t, l.gateway.Addr)
	_ = c.SetDeadline(time.Now().Add(answered))
	value := document(100<<10, 3)
	if err := c.set("sealed", value); err != nil {
		t.Fatal(err)
	}
	direct := mustDial(t, l.redis.Addr)
	if err := direct.send([]byte("sealed"), "STRLEN"); err != nil {
		t.Fatal(err)
	}
	if n, err := direct.header(":"); err != nil || n >= len(value) {
		t.Errorf("%d bytes are stored for %d: not sealed, %v", n, len(value), err)
	}
	if err := c.send([]byte("x"), "APPEND", "big"); err != nil {
		t.Fatal(err)
	}
	if line, err := c.line(); err != nil || line != fmt.Sprint(":", 8*mb+1) {
		t.Errorf("APPEND: %q, %v", line, err)
	}
}

// Readers that have stopped are all disconnected, and one that reads 48 KB every 1.2 s is not.
func TestReadersThatStop(t *testing.T) {
	t.Parallel()
	testenv.Full(t)
	l := startLineup(t)
	bigValue(t, l.gateway)
	honest := mustDial(t, l.gateway.Addr)
	if err := honest.send([]byte("big"), "GET"); err != nil {
		t.Fatal(err)
	}
	taken := make(chan error, 1)
	go func() {
		var err error
		for range 9 {
			if _, err = io.CopyN(io.Discard, honest.Conn, 48_000); err != nil {
				break
			}
			time.Sleep(1200 * time.Millisecond)
		}
		taken <- err
	}()
	readersOfNothing(t, l.gateway, 20)
	c := mustDial(t, l.gateway.Addr)
	_ = c.SetDeadline(time.Now().Add(answered))
	for range 3 {
		if err := c.getIs("big", document(8*mb, 7)); err != nil {
			t.Fatal(err)
		}
	}
	l.everybodyIsServed(t)
	if err := <-taken; err != nil {
		t.Errorf("the honest reader was cut off: %v", err)
	}
	if n := strings.Count(l.gateway.Output(), "client is too slow, disconnected"); n > 20 {
		t.Errorf("%d were cut off", n)
	}
	mustStayUnder(t, l.gateway.Pid(), limitTotal)
}

// Open transactions, and pipelines with unread replies, hold memory too.
func TestRedisSessionsThatStop(t *testing.T) {
	t.Parallel()
	testenv.Full(t)
	l := startLineup(t)
	bigValue(t, l.gateway)
	for range 100 {
		c := mustDial(t, l.gateway.Addr)
		_ = c.SetDeadline(time.Now().Add(answered))
		if _, err := io.WriteString(c, encode("MULTI")); err != nil {
			t.Fatal(err)
		}
		if err := c.send(document(900<<10, 5), "SET", "k"); err != nil {
			t.Fatal(err)
		}
	}
	batch := []byte(strings.Repeat(encode("GETBIT", strings.Repeat("k", 15000), "0")+encode("GET", "big"), 64))
	for range 8 {
		c := mustDial(t, l.gateway.Addr)
		go func() {
			for range 32 {
				if _, err := c.Write(batch); err != nil {
					return
				}
			}
		}()
	}
	settle(t, l.gateway.Pid())
	l.everybodyIsServed(t)
	l.valuesAreSealedAndGuarded(t)
	mustStayUnder(t, l.gateway.Pid(), limitTotal)
}
