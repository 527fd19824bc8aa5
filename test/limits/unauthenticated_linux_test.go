package limits

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	tarantool "github.com/tarantool/go-tarantool/v2"

	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
	"github.com/cinch-layer/cinch/test/mongotest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// If the server requires a login, a client that has not logged in may send the messages of a login and
// little more.

const unauthenticated = `cinch_errors_total{class="unauthenticated",gateway="test"}`

// isDisconnected checks that the gateway closes a connection.
func isDisconnected(t *testing.T, c *client) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(answered))
	if _, err := io.Copy(io.Discard, c.Conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the client is still connected")
	}
}

func TestMongoUnauthenticated(t *testing.T) {
	t.Parallel()
	s := mongotest.Start(t, mongotest.Config{Args: []string{"--auth"}})
	admin := s.Client(t).Database("admin") // a local client may create the first user
	if err := admin.RunCommand(t.Context(), bson.D{{Key: "createUser", Value: "u"}, {Key: "pwd", Value: "p"}, {Key: "roles", Value: bson.A{"root"}}}).Err(); err != nil {
		t.Fatal(err)
	}
	g := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "mongo", Upstream: "mongodb://" + s.Addr, Rules: "- {name: all, setting: zstd-3}"})
	const longest = 64 << 10
	for _, c := range []struct {
		length int
		out    bool
	}{{longest, false}, {longest + 1, true}, {47_000_000, true}} {
		raw := mustDial(t, g.Addr)
		drip(t, raw, mongoHeader(c.length))
		if c.out {
			isDisconnected(t, raw)
		}
	}
	raw := mustDial(t, g.Addr) // a short message that decompresses to a long one
	_ = raw.SetDeadline(time.Now().Add(answered))
	if _, err := raw.Write(mongoHello(t, "zstd")); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, wire.HeaderLen)
	if _, err := io.ReadFull(raw.r, head); err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, raw.r, int64(binary.LittleEndian.Uint32(head))-wire.HeaderLen); err != nil {
		t.Fatal(err)
	}
	bomb := wire.AppendCompressed(nil, wire.Header{Length: 47_000_000, RequestID: 2, OpCode: wire.OpMsg}, wire.Zstd)
	binary.LittleEndian.PutUint32(bomb, 50_000)
	drip(t, raw, bomb)
	isDisconnected(t, raw)
	if n := g.Metric(t, unauthenticated); n != 3 {
		t.Errorf("%v clients were counted", n)
	}
	if err := mongoRoundTrip(t, "mongodb://u:p@"+g.Addr+"/?directConnection=true&compressors=zstd", document(3*mb, 1)); err != nil {
		t.Errorf("after a login: %v", err)
	}
}

// mongoHello returns a driver's first message, with the compressors that it offers.
func mongoHello(t *testing.T, offers ...string) []byte {
	t.Helper()
	doc, err := bson.Marshal(bson.D{{Key: "hello", Value: 1}, {Key: "$db", Value: "admin"}, {Key: "compression", Value: offers}})
	if err != nil {
		t.Fatal(err)
	}
	b := wire.AppendHeader(nil, wire.Header{RequestID: 1, OpCode: wire.OpMsg})
	b = append(append(b, 0, 0, 0, 0, 0), doc...)
	wire.PutLength(b)
	return b
}

func TestTarantoolUnauthenticated(t *testing.T) {
	t.Parallel()
	s := testenv.Tarantool(t, `box.schema.user.revoke('guest', 'super', nil, nil, {if_exists = true})
box.schema.user.create('u', {password = 'p', if_not_exists = true})
box.schema.user.grant('u', 'super', nil, nil, {if_not_exists = true})
`+spaceForVictims)
	g := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "tarantool", Upstream: "tarantool://u:p@" + s.Addr, Settings: "enabled: true"})
	raw := mustDial(t, g.Addr)
	drip(t, raw, binary.BigEndian.AppendUint32([]byte{0xce}, 500*mb))
	isDisconnected(t, raw)
	if n := g.Metric(t, unauthenticated); n != 1 {
		t.Errorf("%v clients were counted", n)
	}
	if err := tarantoolRoundTrip(t, g.Addr, tarantool.NetDialer{Address: g.Addr, User: "u", Password: "p"}, document(500<<10, 1)); err != nil {
		t.Errorf("after a login: %v", err)
	}
}

// What the server grants to guest, or to all users, works unchanged.
func TestTarantoolGuests(t *testing.T) {
	t.Parallel()
	for who, grant := range map[string]string{
		"guest":     "box.schema.user.grant('guest', 'read,write', 'space', 'victims', {if_not_exists = true})",
		"a role":    "box.schema.role.create('r', {if_not_exists = true}); box.schema.role.grant('r', 'read,write', 'space', 'victims', {if_not_exists = true}); box.schema.user.grant('guest', 'r', nil, nil, {if_not_exists = true})",
		"everybody": "box.schema.role.grant('public', 'read,write', 'space', 'victims', {if_not_exists = true})",
	} {
		t.Run(who, func(t *testing.T) {
			s := testenv.Tarantool(t, spaceForVictims+"\nbox.schema.user.revoke('guest', 'super', nil, nil, {if_exists = true})\n"+grant)
			g := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "tarantool", Upstream: s.Addr, Settings: "enabled: true"})
			// The first message tells the gateway what all users may do.
			for _, n := range []int{1000, 500 << 10} {
				if who != "everybody" || n < 2000 {
					if err := tarantoolRoundTrip(t, g.Addr, tarantool.NetDialer{Address: g.Addr}, document(n, 1)); err != nil {
						t.Errorf("%d bytes: %v", n, err)
					}
					continue
				}
				c, err := tarantool.Connect(t.Context(), tarantool.NetDialer{Address: g.Addr}, tarantool.Opts{Timeout: answered})
				if err != nil {
					t.Fatal(err)
				}
				for _, size := range []int{1000, n} {
					if _, err := c.Do(tarantool.NewReplaceRequest("victims").Tuple([]any{1, string(document(size, 1))})).Get(); err != nil {
						t.Errorf("%d bytes: %v", size, err)
					}
				}
				_ = c.Close()
			}
		})
	}
}

// Redis itself refuses clients that have not logged in, with its own length limits.
func TestRedisUnauthenticated(t *testing.T) {
	t.Parallel()
	s := testenv.Redis(t, "--requirepass", "p")
	g := testenv.Gateway(t, testenv.GatewayConfig{Upstream: "redis://:p@" + s.Addr, Unready: true})
	requests := []string{
		fmt.Sprintf("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n", 100<<10) + strings.Repeat("x", 100<<10) + "\r\n",
		"*100000\r\n$3\r\nDEL\r\n" + strings.Repeat("$1\r\nk\r\n", 99_999),
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$10\r\n0123456789\r\n",
	}
	for _, r := range requests {
		var got [2]string
		for i, addr := range []string{s.Addr, g.Addr} {
			c := mustDial(t, addr)
			_ = c.SetDeadline(time.Now().Add(answered))
			go func() { _, _ = io.WriteString(c, r) }()
			got[i], _ = c.r.ReadString('\n')
		}
		if got[0] != got[1] || got[0] == "" {
			t.Errorf("%.30q: the server says %q, the gateway %q", r, got[0], got[1])
		}
	}
	for range 100 {
		drip(t, mustDial(t, g.Addr), fmt.Appendf(nil, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n", 30*mb), make([]byte, 10<<10))
	}
	c := mustDial(t, g.Addr)
	_ = c.SetDeadline(time.Now().Add(answered))
	if err := c.send([]byte("p"), "AUTH"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.line(); err != nil {
		t.Fatal(err)
	}
	if err := c.roundTrip(document(8*mb, 1)); err != nil {
		t.Errorf("after a login: %v", err)
	}
}
