package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/rig"
)

var (
	firsts = strings.Fields("Ada Alan Barbara Claude Dennis Donald Edsger Frances Grace Hedy Ivan Jean John Kathleen Ken Leslie Linus Margaret Niklaus Radia Tim Tony")
	cities = strings.Fields("Amsterdam Berlin Bern Brno Dublin Gent Graz Helsinki Lisboa Lyon Madrid Milano Oslo Porto Praha Riga Sevilla Tallinn Torino Wien")
	states = strings.Fields("open paid packed shipped delivered returned")
)

// document returns a JSON document of about size bytes, deterministic for a number. Half of it consists of
// names that all documents share; the rest is unique.
func document(n, size int) []byte {
	r := rand.New(rand.NewPCG(uint64(n), 7))
	d := fmt.Appendf(nil, `{"order":"%08x-%04x","customer":{"name":"%s","city":"%s","id":%d},"state":"%s","total":%d.%02d,"currency":"EUR","created":"2026-%02d-%02dT%02d:%02d:%02dZ"`,
		r.Uint32(), r.Uint32N(1<<16), firsts[r.IntN(len(firsts))], cities[r.IntN(len(cities))], r.IntN(1_000_000),
		states[r.IntN(len(states))], r.IntN(900), r.IntN(100), 1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60))
	d = append(d, `,"items":[`...)
	for first := true; first || len(d) < size-20; first = false {
		if !first {
			d = append(d, ',')
		}
		d = fmt.Appendf(d, `{"sku":"%06d","count":%d}`, r.IntN(1_000_000), 1+r.IntN(9))
	}
	return append(d, `]}`...)
}

const trainedOn = 20_000

// train makes a dictionary, d.dict, from documents that are not in the server.
func (o *options) train() error {
	var lines []byte
	for i := range trainedOn {
		lines = append(append(lines, document(1<<30+i, o.size)...), '\n')
	}
	file := filepath.Join(o.work, "samples.jsonl")
	if err := os.WriteFile(file, lines, 0o600); err != nil {
		return err
	}
	text, err := exec.Command(o.cinch, "dict", "train", "--out", filepath.Join(o.work, "d.dict"), file).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cinch dict train: %w\n%s", err, text)
	}
	return nil
}

// fill writes all documents uncompressed.
func (o *options) fill(s *rig.Process) error {
	c := s.Client()
	defer c.Close()
	const batch = 500
	for from := 0; from < o.keys; from += batch {
		_, err := c.Pipelined(context.Background(), func(p redis.Pipeliner) error {
			for i := from; i < min(from+batch, o.keys); i++ {
				p.Set(context.Background(), fmt.Sprintf("order:%d", i), document(i, o.size), 0)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
