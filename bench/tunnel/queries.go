package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/test/rig"
)

// asked lists the queries. Results are rows of JSON from another part of 60 MB each time, so that hardly any
// row is in a history.
var asked = []struct{ name, sql string }{
	{"1 number", "SELECT 1;"},
	{"10 KB", `SELECT body FROM cinch_docs WHERE id BETWEEN :id AND :id + 50;`},
	{"100 KB", `SELECT body FROM cinch_docs WHERE id BETWEEN :id AND :id + 500;`},
	{"1 MB", `SELECT body FROM cinch_docs WHERE id BETWEEN :id AND :id + 5000;`},
}

const makeDocs = `CREATE TABLE cinch_docs AS SELECT i AS id, jsonb_build_object('id', i, 'order', 100000 + i * 7,
'customer', jsonb_build_object('name', 'customer ' || i % 997, 'street', substr(md5(i::text), 1, 12), 'city', (ARRAY['Berlin','Hamburg','Bremen','Kiel'])[1 + i % 4]),
'status', (ARRAY['new','paid','sent'])[1 + i % 3], 'total', round((random() * 1000)::numeric, 2), 'tags', ARRAY['web', 'campaign-' || i % 13]) AS body
FROM generate_series(1, 300000) i; CREATE INDEX ON cinch_docs (id); VACUUM ANALYZE cinch_docs;`

// queries runs pgbench over links, one client at a time.
func (b *bench) queries() (string, error) {
	db, err := rig.Postgres(b.dir)
	if err != nil {
		return "", err
	}
	defer db.Stop()
	psql := exec.Command("psql", "-h", "127.0.0.1", "-p", db.Port(), "-U", "postgres", "-q", "-v", "ON_ERROR_STOP=1")
	psql.Stdin = strings.NewReader(makeDocs)
	if out, err := psql.CombinedOutput(); err != nil {
		return "", fmt.Errorf("psql: %w\n%s", err, out)
	}
	var t rig.Table
	t.Row("link", "result", "way", "p50, ms", "p99, ms", "bytes down a query", "CPU of both ends a query, us")
	t.Rule(7)
	for _, link := range []struct {
		roundTrip time.Duration
		mbit      int
	}{{1500 * time.Microsecond, 100}, {30 * time.Millisecond, 100}} {
		for _, q := range asked {
			for _, name := range []string{direct, "zstd-1", "zstd-6", "auto", ssh, stunnel} {
				if !b.have(name) {
					continue
				}
				m, err := b.query(db, link.roundTrip, link.mbit, q.sql, name)
				if err != nil {
					return "", err
				}
				t.Row(fmt.Sprintf("%v, %d Mbit/s", link.roundTrip, link.mbit), q.name, label(name), fmt.Sprintf("%.2f", m.p50), fmt.Sprintf("%.2f", m.p99),
					fmt.Sprint(m.down), fmt.Sprintf("%.0f", m.cpu))
			}
		}
	}
	return t.String(), nil
}

// measured holds the results of one query: latencies in milliseconds, CPU time in microseconds.
type measured struct {
	p50, p99, cpu float64
	down          int64
}

func (b *bench) query(db *rig.Process, roundTrip time.Duration, mbit int, sql, name string) (measured, error) {
	w, err := b.open(db.Addr, name, roundTrip, mbit)
	if err != nil {
		return measured{}, err
	}
	defer w.close()
	dir, err := os.MkdirTemp(b.dir, "pgbench")
	if err != nil {
		return measured{}, err
	}
	defer os.RemoveAll(dir)
	file, err := b.write("query.sql", "\\set id random(1, 290000)\n"+sql)
	if err != nil {
		return measured{}, err
	}
	seconds := "4"
	if *short {
		seconds = "1"
	}
	_, port, _ := strings.Cut(w.addr, ":")
	before := w.cpu()
	cmd := exec.Command("pgbench", "-h", "127.0.0.1", "-p", port, "-U", "postgres", "-d", "postgres", "-n", "-f", file, "-T", seconds, "-l", "--log-prefix", "log")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return measured{}, fmt.Errorf("pgbench: %w\n%s", err, out)
	}
	cpu := w.cpu() - before
	_, down, err := w.link.Bytes()
	if err != nil {
		return measured{}, err
	}
	took, err := latencies(dir)
	if err != nil {
		return measured{}, err
	}
	n := len(took)
	return measured{took[n/2], took[n*99/100], float64(cpu.Microseconds()) / float64(n), down / int64(n)}, nil
}

// latencies reads pgbench's log: one line per query, whose third field is the latency in microseconds. It
// returns milliseconds in ascending order.
func latencies(dir string) (all []float64, err error) {
	files, _ := filepath.Glob(filepath.Join(dir, "log.*"))
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		for line := range bytes.Lines(text) {
			fields := strings.Fields(string(line))
			if len(fields) < 3 {
				continue
			}
			us, err := strconv.ParseFloat(fields[2], 64)
			if err != nil {
				return nil, err
			}
			all = append(all, us/1000)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("pgbench ended no query")
	}
	slices.Sort(all)
	return all, nil
}
