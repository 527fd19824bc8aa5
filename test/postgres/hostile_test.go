package postgres

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/internal/switchover/pg"
	"github.com/cinch-layer/cinch/test/testenv"
)

// crowd is the number of simultaneous clients, and of unauthenticated clients and cancellations.
var crowd = flag.Int("postgres.crowd", 20, "clients that come at once")

// front is the gateway or mirror that clients connect to in place of production.
type front struct {
	addr       string
	pid        int
	production *testenv.SQLServer

	asks   *pgx.Conn   // direct connection to production
	looks  []*pgx.Conn // direct connections to the servers that may hold connections for clients
	others *others
}

// hostile is the application_name of the misbehaving clients.
const hostile = "hostile"

func newFront(t *testing.T, addr string, pid int, servers ...*testenv.SQLServer) *front {
	t.Helper()
	f := &front{addr: addr, pid: pid, production: servers[0]}
	f.asks = dial(t, f.production.Addr)
	for _, server := range servers {
		f.looks = append(f.looks, dial(t, server.Addr))
	}
	f.others = &others{f: f, conn: dial(t, addr)}
	return f
}

func dial(t *testing.T, addr string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), "postgres://postgres@"+addr+"/postgres")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// count runs a query directly on production.
func (f *front) count(t *testing.T, query string, args ...any) (n int) {
	t.Helper()
	if err := f.asks.QueryRow(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// connected counts a server's connections of hostile clients.
const connected = "SELECT count(*) FROM pg_stat_activity WHERE application_name = '" + hostile + "'"

// left waits until all servers have closed the connections of hostile clients.
func (f *front) left(t *testing.T) {
	t.Helper()
	for _, c := range f.looks {
		testenv.Eventually(t, "hostile clients' connections are closed at "+fmt.Sprint(c.Config().Port), func() bool {
			var n int
			if err := c.QueryRow(t.Context(), connected).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n == 0
		})
	}
}

// others are well-behaved clients.
type others struct {
	f    *front
	conn *pgx.Conn // open from the beginning
	n    int
}

// work inserts rows over an old connection and a new one, and checks that production has them.
func (o *others) work(t *testing.T) {
	t.Helper()
	fresh, err := pgx.Connect(t.Context(), "postgres://postgres@"+o.f.addr+"/postgres")
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close(context.WithoutCancel(t.Context()))
	for _, c := range []*pgx.Conn{o.conn, fresh} {
		for range 3 {
			if _, err := c.Exec(t.Context(), "INSERT INTO work VALUES ($1)", o.n); err != nil {
				t.Fatal(err)
			}
			o.n++
		}
	}
	if n := o.f.count(t, "SELECT count(*) FROM work"); n != o.n {
		t.Errorf("%d rows of %d", n, o.n)
	}
}

// enemy is a connection on which the test writes protocol messages itself.
type enemy struct {
	net.Conn
	key []byte
}

// reach connects and sends nothing.
func (f *front) reach(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// enter connects and logs in.
func (f *front) enter(t *testing.T) *enemy {
	t.Helper()
	e := &enemy{Conn: f.reach(t)}
	e.say(t, pg.AppendStartup(nil, "user", "postgres", "application_name", hostile))
	e.until(t, pg.ReadyForQuery)
	return e
}

func (e *enemy) say(t *testing.T, b []byte) {
	t.Helper()
	if _, err := e.Write(b); err != nil {
		t.Fatal(err)
	}
}

// until reads messages up to one of that type.
func (e *enemy) until(t *testing.T, kind byte) {
	t.Helper()
	for {
		m, err := receive(e)
		if err != nil {
			t.Fatal(err)
		}
		switch m.Type {
		case pg.BackendKeyData:
			e.key = append([]byte(nil), m.Body...)
		case kind:
			return
		case pg.ErrorResponse:
			t.Fatal(pg.Text(m.Body))
		}
	}
}

// ask sends a query and reads its reply.
func (e *enemy) ask(t *testing.T, text string) {
	t.Helper()
	e.say(t, pg.AppendQuery(nil, text))
	e.until(t, pg.ReadyForQuery)
}

// die resets the connection, as the kernel does for a killed process with unread data.
func (e *enemy) die(t *testing.T) {
	t.Helper()
	if err := e.Conn.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	_ = e.Close()
}

// Clients are hostile, impatient or killed, at a gateway and at a mirror. Other clients are not affected,
// production's connections are closed with those of clients, and memory stays within its limit. The targets
// execute exactly what production has executed.
func TestHostileClients(t *testing.T) {
	s := sharedServers(t)
	for _, server := range s.all() {
		testenv.Command(t, "psql", "-Xq", "-h", "127.0.0.1", "-p", server.Port, "-U", "postgres", "-c", "CREATE TABLE work (n int)", "-c", "CREATE TABLE victim (id int PRIMARY KEY, n int)")
	}
	t.Run("gateway", func(t *testing.T) {
		g := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "postgres", Upstream: "postgres://" + s.production.Addr})
		newFront(t, g.Addr, g.Pid(), s.production).suffer(t, 64*mib)
		for _, target := range []*testenv.SQLServer{s.control, s.test} { // this case has no mirror
			testenv.Command(t, "psql", "-Xq", "-h", "127.0.0.1", "-p", target.Port, "-U", "postgres", "-c", "INSERT INTO victim VALUES (1, 1)")
		}
		testenv.Command(t, "psql", "-Xq", "-h", "127.0.0.1", "-p", s.production.Port, "-U", "postgres", "-c", "TRUNCATE work")
	})
	t.Run("mirror", func(t *testing.T) {
		const memory = 64 * mib
		m := s.mirror(t, "--memory", strconv.Itoa(memory))
		newFront(t, m.addr, m.pid, s.all()...).suffer(t, memory*12/10+64*mib)
		r := m.stop()
		c := r.Compared
		t.Logf("%d connections, %d operations: %+v, %d dropped %v", r.Connections, r.Operations, c, r.Dropped, r.Why)
		if c.Different > 0 || c.Lost != [2]int{} || r.Unmirrored > 0 || c.Equal < 30 || r.Dropped != r.Why["pg: malformed message"] {
			t.Errorf("%s %q, ended by %q: %+v", r.Outcome, r.Reasons, r.Ended, r.Differences)
		}
		for _, table := range []string{"work", "victim"} {
			s.same(t, "postgres", table)
		}
	})
}

const mib = 1 << 20

// suffer runs all attacks. The process must use at most most bytes and 48 KiB per client.
func (f *front) suffer(t *testing.T, most int64) {
	for _, attack := range []struct {
		name string
		come func(*front, *testing.T)
	}{
		{"strangers that say nothing", (*front).strangers},
		{"first packets that are none", (*front).noPackets},
		{"messages that are none", (*front).noMessages},
		{"cancellations with wrong keys", (*front).cancellations},
		{"large results that nobody reads", (*front).unread},
		{"half a connection", (*front).halves},
		{"killed in the middle", (*front).killed},
		{"a crowd", (*front).crowd},
		{"a storm", (*front).storm},
	} {
		t.Run(attack.name, func(t *testing.T) {
			f.others.work(t)
			attack.come(f, t)
			f.others.work(t)
			f.left(t)
		})
	}
	peak := testenv.ProcessMemory(t, f.pid, "VmHWM")
	most += int64(*crowd) * 48 << 10
	t.Logf("%d MiB at most", peak/mib)
	if peak > most {
		t.Errorf("%d MiB, more than %d", peak/mib, most/mib)
	}
}

// strangers send no startup packet, or only a part of one. Production gets no connection for them.
func (f *front) strangers(t *testing.T) {
	const all = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
	before := f.count(t, all)
	startup := pg.AppendStartup(nil, "user", "postgres", "application_name", hostile)
	for i := range *crowd {
		c := f.reach(t)
		if _, err := c.Write(startup[:i%len(startup)]); err != nil {
			t.Fatal(err)
		}
	}
	f.others.work(t)
	testenv.Eventually(t, "production has no connections of strangers", func() bool { return f.count(t, all) <= before })
}

// noPackets sends invalid first packets. Their connections are closed, and the server is not contacted.
func (f *front) noPackets(t *testing.T) {
	length := func(n uint32, rest string) string { return string(binary.BigEndian.AppendUint32(nil, n)) + rest }
	for _, packet := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "SSH-2.0-x\r\n", "*1\r\n$4\r\nPING\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		length(0, "\x00\x03\x00\x00"), length(7, "\x00\x03\x00\x00"), length(10_001, "\x00\x03\x00\x00"), length(1<<31, "\x00\x03\x00\x00"), length(1<<32-1, "\x00\x03\x00\x00"),
	} {
		c := f.reach(t)
		if _, err := io.WriteString(c, packet); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, c) // a reset counts as the end
	}
}

// noMessages sends invalid messages after logging in. The server's answer is passed on to the end. For some
// messages the server waits for the rest of the declared length until the client leaves.
func (f *front) noMessages(t *testing.T) {
	declared := func(kind byte, n uint32, rest string) string {
		return string([]byte{kind}) + string(binary.BigEndian.AppendUint32(nil, n)) + rest
	}
	for _, message := range []string{
		declared('Q', 0, ""), declared('Q', 3, ""), declared('Q', 1<<31, "x"), declared('Q', 1<<32-1, "x"), declared('?', 4, ""), declared(0, 4, ""), declared(255, 8, "abcd"),
		declared('p', 8, "abcd"), declared('B', 8, "abcd"), declared('P', 8, "abcd"), declared('D', 5, "S"), declared('F', 5, "x"), declared('Q', 8, "abcd"),
	} {
		direct := &front{addr: f.production.Addr}
		want, got := direct.answerTo(t, message), f.answerTo(t, message)
		if got != want && got != "E 08P01 the gateway can't parse the client's message\nend" {
			t.Errorf("to %q the server says %q, and here it is %q", message, want, got)
		}
	}
	for _, kind := range []byte{'Q', 'P', 'B', 'd'} {
		e := f.enter(t)
		_, _ = io.WriteString(e, declared(kind, 1<<29, strings.Repeat("x", 4*mib)))
		e.die(t)
	}
}

// answerTo returns the reply to an invalid message, to a Sync after it, and to the end of the connection.
func (f *front) answerTo(t *testing.T, message string) string {
	t.Helper()
	e := f.enter(t)
	_, _ = io.WriteString(e, message)
	_, _ = e.Write(pg.Append(nil, pg.Sync))
	_ = e.Conn.(*net.TCPConn).CloseWrite()
	var out strings.Builder
	for {
		m, err := receive(e)
		if err != nil {
			return out.String() + "end"
		}
		fmt.Fprintln(&out, describe(m))
		if m.Type == pg.ReadyForQuery {
			return out.String()
		}
	}
}

// cancellations sends cancel requests with wrong keys while another client's statement waits, which must
// not be cancelled.
func (f *front) cancellations(t *testing.T) {
	if _, err := f.asks.Exec(t.Context(), "SELECT pg_advisory_lock(1)"); err != nil {
		t.Fatal(err)
	}
	e := f.enter(t)
	e.say(t, pg.AppendQuery(nil, "SELECT pg_advisory_lock_shared(1)"))
	testenv.Eventually(t, "it waits", func() bool {
		return f.count(t, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") == 1
	})
	var flood sync.WaitGroup
	for i := range *crowd {
		wrong := append([]byte(nil), e.key...)
		wrong[4+i%4]++
		switch i % 8 {
		case 0:
			wrong = wrong[:4]
		case 1:
			wrong = append(wrong, make([]byte, 256)...)
		}
		c := f.reach(t)
		flood.Go(func() {
			_, _ = c.Write(pg.AppendCancel(nil, wrong))
			_, _ = io.Copy(io.Discard, c)
		})
	}
	f.others.work(t)
	flood.Wait()
	if _, err := f.asks.Exec(t.Context(), "SELECT pg_advisory_unlock(1)"); err != nil {
		t.Fatal(err)
	}
	e.until(t, pg.ReadyForQuery)
	_ = e.Close()
}

// unread requests results that are larger than the gateway or mirror may hold, and does not read them.
func (f *front) unread(t *testing.T) {
	var slow []*enemy
	for range 6 {
		e := f.enter(t)
		e.say(t, pg.AppendQuery(nil, "SELECT repeat('x', 100000) FROM generate_series(1, 4000)"))
		slow = append(slow, e)
	}
	testenv.Eventually(t, "the server waits for them to read", func() bool {
		return f.count(t, connected+" AND wait_event = 'ClientWrite'") == len(slow)
	})
	f.others.work(t)
	for _, e := range slow {
		e.die(t)
	}
}

// halves half-closes connections and keeps reading: the server must answer the request.
func (f *front) halves(t *testing.T) {
	answer := func(f *front) int64 {
		e := f.enter(t)
		e.say(t, pg.AppendQuery(nil, "SELECT repeat('y', 1000) FROM generate_series(1, 2000)"))
		if err := e.Conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		n, _ := io.Copy(io.Discard, e)
		return n
	}
	if want, got := answer(&front{addr: f.production.Addr}), answer(f); got != want {
		t.Errorf("%d bytes, and directly %d", got, want)
	}
}

// killed checks that killed clients leave neither rows nor locks.
func (f *front) killed(t *testing.T) {
	first := f.enter(t)
	first.ask(t, "INSERT INTO victim VALUES (1, 0) ON CONFLICT (id) DO UPDATE SET n = 0")
	_ = first.Close()
	f.left(t)
	for _, begin := range []func(*enemy){
		func(e *enemy) { e.ask(t, "BEGIN; UPDATE victim SET n = 100 WHERE id = 1") },
		func(e *enemy) {
			e.say(t, pg.AppendQuery(nil, "COPY victim FROM STDIN"))
			e.until(t, pg.CopyInResponse)
			e.say(t, pg.Append(nil, pg.CopyData, []byte("7\t7\n")))
		},
		func(e *enemy) {
			e.say(t, pg.AppendQuery(nil, "COPY (SELECT repeat('z', 100000) FROM generate_series(1, 4000)) TO STDOUT"))
			e.until(t, pg.CopyData)
		},
		func(e *enemy) { // a pipeline without Sync
			e.say(t, pg.Append(nil, pg.Parse, []byte("\x00INSERT INTO victim VALUES (8, 8)\x00\x00\x00")))
			e.say(t, pg.Append(nil, pg.Bind, make([]byte, 8)))
			e.say(t, pg.Append(pg.Append(nil, pg.Execute, make([]byte, 5)), pg.Flush))
			e.until(t, pg.CommandComplete)
		},
		func(e *enemy) { // half a message
			e.say(t, pg.AppendQuery(nil, "INSERT INTO victim VALUES (9, 9)")[:20])
		},
	} {
		for range codectest.Amount(0, 2, 5) {
			e := f.enter(t)
			begin(e)
			e.die(t)
			f.left(t)
		}
	}
	if _, err := f.others.conn.Exec(t.Context(), "UPDATE victim SET n = n + 1 WHERE id = 1"); err != nil {
		t.Fatal(err)
	}
	if n := f.count(t, "SELECT sum(id * 1000 + n) FROM victim"); n != 1001 {
		t.Errorf("the rows add up to %d", n)
	}
}

// crowd connects many clients at once: each must be answered while all are connected.
func (f *front) crowd(t *testing.T) {
	var all sync.WaitGroup
	conns := make([]*pgx.Conn, *crowd)
	for i := range conns {
		all.Go(func() {
			c, err := pgx.Connect(t.Context(), "postgres://postgres@"+f.addr+"/postgres?application_name="+hostile)
			if err != nil {
				t.Error(err)
				return
			}
			conns[i] = c
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	if n := f.count(t, connected); n != *crowd {
		t.Errorf("%d connections of %d", n, *crowd)
	}
	for _, c := range conns {
		all.Go(func() {
			if _, err := c.Exec(t.Context(), "INSERT INTO work VALUES (-1)"); err != nil {
				t.Error(err)
			}
			_ = c.Close(t.Context())
		})
	}
	f.others.n += *crowd
	all.Wait()
}

// storm connects and disconnects clients in many different ways.
func (f *front) storm(t *testing.T) {
	startup := pg.AppendStartup(nil, "user", "postgres", "application_name", hostile)
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			for i := range *crowd / 4 {
				e := &enemy{}
				var err error
				if e.Conn, err = net.Dial("tcp", f.addr); err != nil {
					t.Error(err)
					return
				}
				if (n+i)%3 > 0 {
					_, _ = e.Write(startup)
				}
				if (n+i)%3 > 1 {
					_, _ = io.ReadFull(e, make([]byte, 20))
					_, _ = e.Write(pg.AppendQuery(nil, "SELECT 1"))
				}
				if i%2 == 0 {
					_ = e.Conn.(*net.TCPConn).SetLinger(0)
				}
				_ = e.Close()
			}
		})
	}
	all.Wait()
}
