// Command tunnel measures a pair of gateways beside no pair and beside compression by message:
// bytes on the link, CPU of both ends, time. docs/TUNNEL.md has the figures.
//
//	go run ./bench/tunnel [--postgres PORT] [--requests N]
//
// The link is bench/mongo's, a process of its own. With --postgres a server on 127.0.0.1 whose user
// postgres needs no password is measured too, by pgbench.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/bench/remotewrite"
	"github.com/cinch-layer/cinch/bench/rig"
	"github.com/cinch-layer/cinch/bench/rig/proc"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/libzstd"
)

var (
	postgres = flag.String("postgres", "", "port of a PostgreSQL server on 127.0.0.1")
	requests = flag.Int("requests", 40, "WriteRequests of 2,000 series")
	seconds  = flag.Int("seconds", 4, "of each run of pgbench")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	dir, err := os.MkdirTemp("", "cinch-bench-tunnel")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := bench{dir: dir}
	for _, p := range []string{"cmd/cinch", "bench/mongo"} {
		if err := rig.Build(filepath.Join(dir, filepath.Base(p)), "./"+p); err != nil {
			return err
		}
	}
	if err := b.writeRequests(); err != nil || *postgres == "" {
		return err
	}
	return b.pgbench()
}

type bench struct{ dir string }

// way is a route to a server: over the link alone, or through a pair of gateways over it.
type way struct {
	addr string // where the client connects

	link     *exec.Cmd
	ask      io.WriteCloser
	answers  *bufio.Reader
	gateways []*exec.Cmd
}

// open makes a route. Setting "" means no gateways.
func (b *bench) open(server, setting string, roundTrip time.Duration, mbit int) (*way, error) {
	w := &way{}
	if setting != "" {
		exit, err := b.gateway(w, "tunnel-exit", server, setting)
		if err != nil {
			return nil, err
		}
		server = exit
	}
	w.link = exec.Command(filepath.Join(b.dir, "mongo"), "link", roundTrip.String(), fmt.Sprint(mbit), "127.0.0.1:0="+server)
	w.ask, _ = w.link.StdinPipe()
	out, _ := w.link.StdoutPipe()
	w.answers = bufio.NewReader(out)
	if err := w.link.Start(); err != nil {
		return nil, err
	}
	line, err := w.answers.ReadString('\n')
	if err != nil {
		return nil, err
	}
	w.addr = strings.TrimSpace(line)
	if setting != "" {
		w.addr, err = b.gateway(w, "tunnel", w.addr, setting)
	}
	return w, err
}

func (b *bench) gateway(w *way, protocol, upstream, setting string) (string, error) {
	addr, err := rig.FreeAddr()
	if err != nil {
		return "", err
	}
	file := filepath.Join(b.dir, protocol+".yaml")
	text := fmt.Sprintf("admin: {listen: \"off\"}\ngateways:\n  - {name: t, protocol: %s, listen: %q, upstream: %q, setting: %s}\n", protocol, addr, upstream, setting)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", err
	}
	cmd := exec.Command(filepath.Join(b.dir, "cinch"), "serve", "--config", file)
	cmd.Stderr = io.Discard
	if err := cmd.Start(); err != nil {
		return "", err
	}
	w.gateways = append(w.gateways, cmd)
	for range 300 {
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			return addr, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return "", fmt.Errorf("%s does not listen", protocol)
}

// bytes is what went over the link so far.
func (w *way) bytes() (up, down int64) {
	fmt.Fprintln(w.ask)
	line, _ := w.answers.ReadString('\n')
	_, _ = fmt.Sscan(line, &up, &down)
	return up, down
}

// cpu is what both gateways have used.
func (w *way) cpu() (sum time.Duration) {
	for _, g := range w.gateways {
		d, _ := proc.CPU(g.Process.Pid)
		sum += d
	}
	return sum
}

func (w *way) close() {
	for _, g := range w.gateways {
		_ = g.Process.Kill()
		_ = g.Wait()
	}
	_ = w.ask.Close()
	_ = w.link.Wait()
}

func (b *bench) writeRequests() error {
	corpus, err := remotewrite.Load(context.Background())
	if err != nil {
		return err
	}
	sink, err := listenSink()
	if err != nil {
		return err
	}
	for name, messages := range map[string][][]byte{"A scraped": corpus.Scraped(2000, *requests), "B shuffled": corpus.Shuffled(2000, *requests)} {
		raw := 0
		for _, m := range messages {
			raw += len(m) + 5
		}
		s2 := 0
		for _, setting := range []codec.Setting{{Codec: codec.S2}, {Codec: codec.Zstd, Level: 1}} {
			n, took := byMessage(messages, setting)
			if s2 == 0 {
				s2 = n
			}
			report(name, "by message "+setting.String(), raw, n, s2, took, 0)
		}
		for _, setting := range []string{"zstd-1", "zstd-3", "zstd-4", "zstd-6"} {
			w, err := b.open(sink, setting, 0, 0)
			if err != nil {
				return err
			}
			before := w.cpu()
			began := time.Now()
			if err := send(w.addr, messages); err != nil {
				return err
			}
			took := time.Since(began)
			up, _ := w.bytes()
			report(name, "pair "+setting, raw, int(up), s2, w.cpu()-before, took)
			w.close()
		}
	}
	return nil
}

func report(data, way string, raw, n, s2 int, cpu, took time.Duration) {
	fmt.Printf("%-10s  %-18s %10d bytes  %5.2fx  %+6.1f %% of s2  cpu %6d ms  took %v\n", data, way, n, float64(raw)/float64(n),
		100*(float64(n)/float64(s2)-1), cpu.Milliseconds(), took.Round(time.Millisecond))
}

// byMessage is what compressing each message by itself makes, with gRPC's five bytes each,
// and the time of compressing and decompressing.
func byMessage(messages [][]byte, setting codec.Setting) (sum int, took time.Duration) {
	z, _ := libzstd.New()
	e := codec.New(codec.Options{Zstd: z})
	began := time.Now()
	for _, m := range messages {
		out, err := e.Compress(nil, m, setting, nil)
		if err == nil {
			_, err = e.Decompress(nil, out, setting.Codec, len(m), nil)
		}
		if err != nil {
			log.Fatal(err)
		}
		sum += len(out) + 5
	}
	return sum, time.Since(began)
}

// listenSink takes messages with a length in front and answers each with a byte, as an
// ingester does.
func listenSink() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go sink(c)
		}
	}()
	return l.Addr().String(), nil
}

func sink(c net.Conn) {
	defer c.Close()
	for {
		var head [5]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head[1:]))); err != nil {
			return
		}
		_, _ = c.Write([]byte{1})
	}
}

// send sends messages one after the other, each when the one before was taken.
func send(addr string, messages [][]byte) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, m := range messages {
		head := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m)))
		if _, err := c.Write(append(head, m...)); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			return err
		}
	}
	return nil
}

// queries are what pgbench runs, with rows of JSON: another part of 60 MB each time, so that
// hardly any row is one that a history knows.
var queries = []struct{ name, sql string }{
	{"1 number", "SELECT 1;"},
	{"10 KB", `SELECT body FROM cinch_docs WHERE id BETWEEN :id AND :id + 50;`},
	{"100 KB", `SELECT body FROM cinch_docs WHERE id BETWEEN :id AND :id + 500;`},
	{"1 MB", `SELECT body FROM cinch_docs WHERE id BETWEEN :id AND :id + 5000;`},
}

const makeDocs = `DROP TABLE IF EXISTS cinch_docs; CREATE TABLE cinch_docs AS SELECT i AS id, jsonb_build_object('id', i, 'order', 100000 + i * 7,
'customer', jsonb_build_object('name', 'customer ' || i % 997, 'street', substr(md5(i::text), 1, 12), 'city', (ARRAY['Berlin','Hamburg','Bremen','Kiel'])[1 + i % 4]),
'status', (ARRAY['new','paid','sent'])[1 + i % 3], 'total', round((random() * 1000)::numeric, 2), 'tags', ARRAY['web', 'campaign-' || i % 13]) AS body
FROM generate_series(1, 300000) i; CREATE INDEX ON cinch_docs (id); ANALYZE cinch_docs;`

func (b *bench) pgbench() error {
	psql := exec.Command("psql", "-h", "127.0.0.1", "-p", *postgres, "-U", "postgres", "-q", "-c", makeDocs)
	if out, err := psql.CombinedOutput(); err != nil {
		return fmt.Errorf("psql: %w\n%s", err, out)
	}
	for _, link := range []struct {
		roundTrip time.Duration
		mbit      int
	}{{1500 * time.Microsecond, 100}, {30 * time.Millisecond, 100}} {
		for _, q := range queries {
			for _, setting := range []string{"", "zstd-1", "auto"} {
				if err := b.query(link.roundTrip, link.mbit, q.name, q.sql, setting); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (b *bench) query(roundTrip time.Duration, mbit int, name, sql, setting string) error {
	w, err := b.open("127.0.0.1:"+*postgres, setting, roundTrip, mbit)
	if err != nil {
		return err
	}
	defer w.close()
	file := filepath.Join(b.dir, "query.sql")
	if err := os.WriteFile(file, []byte("\\set id random(1, 290000)\n"+sql), 0o600); err != nil {
		return err
	}
	_, port, _ := strings.Cut(w.addr, ":")
	before := w.cpu()
	out, err := exec.Command("pgbench", "-h", "127.0.0.1", "-p", port, "-U", "postgres", "-d", "postgres", "-n", "-f", file, "-T", fmt.Sprint(*seconds)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("pgbench: %w\n%s", err, out)
	}
	var n int64
	latency := "?"
	for line := range strings.Lines(string(out)) {
		_, _ = fmt.Sscanf(line, "number of transactions actually processed: %d", &n)
		if rest, ok := strings.CutPrefix(line, "latency average = "); ok {
			latency = strings.TrimSpace(rest)
		}
	}
	_, down := w.bytes()
	fmt.Printf("rtt %-6v %3d Mbit  %-9s %-7s  latency %-12s %8d bytes down a query  cpu of both ends %5.0f us a query\n",
		roundTrip, mbit, name, cmp.Or(setting, "direct"), latency, down/max(n, 1), float64((w.cpu()-before).Microseconds())/float64(max(n, 1)))
	return nil
}
