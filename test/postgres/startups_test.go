package postgres

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/switchover/pg"
	"github.com/cinch-layer/cinch/test/testenv"
)

// startup is a way to begin a connection.
type startup struct {
	name    string
	packet  []byte
	gateway string // the gateway's own answer; empty: the server's
}

// version changes the protocol version of a startup packet.
func version(major, minor uint16, packet []byte) []byte {
	binary.BigEndian.PutUint16(packet[4:], major)
	binary.BigEndian.PutUint16(packet[6:], minor)
	return packet
}

func startups() []startup {
	with := func(parameters ...string) []byte {
		return pg.AppendStartup(nil, append([]string{"user", "postgres"}, parameters...)...)
	}
	unterminated := with()
	unterminated = unterminated[:len(unterminated)-1]
	binary.BigEndian.PutUint32(unterminated, uint32(len(unterminated)))
	return []startup{
		{name: "3.0", packet: with()},
		{name: "3.1", packet: version(3, 1, with())},
		{name: "3.2", packet: version(3, 2, with())},
		// Libpq 19 sends it, to detect servers that can't negotiate.
		{name: "3.9999", packet: version(3, 9999, with())},
		// The server would answer with protocol 2.0.
		{name: "2.0", packet: version(2, 0, with()), gateway: "E 08P01 the gateway supports only version 3 of PostgreSQL's protocol\nend\n"},
		{name: "4.0", packet: version(4, 0, with())},
		{name: "an unknown request", packet: version(1234, 5690, with())},
		{name: "protocol options", packet: with("_pq_.one", "1", "_pq_.two", "2")},
		{name: "3.2 with a protocol option", packet: version(3, 2, with("_pq_.one", "1"))},
		{name: "no user", packet: pg.AppendStartup(nil, "database", "postgres")},
		{name: "an unknown database", packet: with("database", "nowhere")},
		{name: "an unknown setting", packet: with("nothing_like_it", "1")},
		{name: "a bad value", packet: with("DateStyle", "never")},
		{name: "an encoding", packet: with("client_encoding", "LATIN1")},
		{name: "an unknown encoding", packet: with("client_encoding", "KLINGON")},
		{name: "options", packet: with("options", `-c work_mem=5MB --search_path=a\ b,public -c application_name=ö`)},
		{name: "bad options", packet: with("options", "-Z")},
		{name: "a name beyond ASCII", packet: with("application_name", "a\x01ö")},
		{name: "the same twice", packet: with("application_name", "first", "application_name", "second")},
		{name: "replication", packet: with("replication", "true")},
		{name: "replication of a database", packet: with("replication", "database", "database", "postgres")},
		{name: "a bad kind of replication", packet: with("replication", "perhaps")},
		{name: "no end", packet: unterminated},
		{name: "nothing in it", packet: pg.AppendStartup(nil)},
	}
}

// conversation returns a server's answers to a startup packet and to a query, without values that always
// differ.
func conversation(t *testing.T, addr string, packet []byte) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(packet); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for queries := []string{"SELECT current_setting('application_name'), current_setting('search_path')", ""}; ; {
		m, err := receive(c)
		if err != nil {
			fmt.Fprintln(&out, "end")
			return out.String()
		}
		fmt.Fprintln(&out, describe(m))
		if m.Type != pg.ReadyForQuery {
			continue
		}
		next := pg.Append(nil, pg.Terminate)
		if queries[0] != "" {
			next = pg.AppendQuery(nil, queries[0])
		}
		queries = queries[1:]
		if _, err := c.Write(next); err != nil {
			t.Fatal(err)
		}
	}
}

// receive reads one message.
func receive(c io.Reader) (pg.Message, error) {
	raw := make([]byte, pg.HeaderBytes)
	if _, err := io.ReadFull(c, raw); err != nil {
		return pg.Message{}, err
	}
	n := binary.BigEndian.Uint32(raw[1:])
	if n < pg.HeaderBytes-1 || n > 1<<20 {
		return pg.Message{}, errors.New("no message")
	}
	raw = append(raw, make([]byte, n+1-pg.HeaderBytes)...)
	if _, err := io.ReadFull(c, raw[pg.HeaderBytes:]); err != nil {
		return pg.Message{}, err
	}
	m, _, err := pg.Cut(raw)
	return m, err
}

func describe(m pg.Message) string {
	switch m.Type {
	case pg.BackendKeyData:
		return fmt.Sprintf("K a key of %d bytes", len(m.Body)-4)
	case pg.ErrorResponse:
		return fmt.Sprintf("E %s %s", pg.Code(m.Body), pg.Text(m.Body))
	}
	return fmt.Sprintf("%c %q", m.Type, m.Body)
}

// Every documented way to begin a connection gets the server's own answers through a gateway and a mirror,
// including versions and protocol options that the server does not support.
func TestStartups(t *testing.T) {
	for i, line := range testenv.PostgresLines {
		t.Run(line.Name, func(t *testing.T) {
			if i > 0 {
				testenv.Full(t)
			}
			s := sharedServers(t)
			if i > 0 {
				s = servers{line.Start(t), line.Start(t), line.Start(t)}
			}
			g := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "postgres", Upstream: "postgres://" + s.production.Addr})
			m := s.mirror(t)
			for _, start := range startups() {
				want := conversation(t, s.production.Addr, start.packet)
				t.Logf("%s:\n%s", start.name, want)
				if got := conversation(t, m.addr, start.packet); got != want {
					t.Errorf("%s: through the mirror it is\n%s", start.name, got)
				}
				if start.gateway != "" {
					want = start.gateway
				}
				if got := conversation(t, g.Addr, start.packet); got != want {
					t.Errorf("%s: through the gateway it is\n%s", start.name, got)
				}
			}
			r := m.stop()
			// Packets that no server understands are not mirrored.
			if c := r.Compared; c.Different > 0 || c.Lost != [2]int{} || c.Timed < 20 || r.Dropped > 1 {
				t.Errorf("compared %+v, %d dropped %v, %+v", c, r.Dropped, r.Why, r.Differences)
			}
		})
	}
}

// Encryption requests are answered with no if the gateway has no TLS, in any order, even if the server
// would accept.
func TestQuestions(t *testing.T) {
	s := sharedServers(t).production
	g := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "postgres", Upstream: "postgres://" + s.Addr})
	tls := pg.AppendSSLRequest(nil)
	gss := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, pg.StartupHeaderBytes), pg.GSSRequest)
	for _, questions := range [][][]byte{{tls}, {gss}, {gss, tls}, {tls, gss}} {
		c, err := net.Dial("tcp", g.Addr)
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range questions {
			var answer [1]byte
			if _, err := c.Write(q); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(c, answer[:]); err != nil || answer[0] != 'N' {
				t.Errorf("%q, %v", answer, err)
			}
		}
		_ = c.Close()
	}
}
