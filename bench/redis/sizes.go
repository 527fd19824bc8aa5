package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/bench/corpora"
	"github.com/cinch-layer/cinch/test/rig"
)

// storing is a way to store values, given as a rule of the gateway.
type storing struct {
	name, rule string
	trained    bool // with a dictionary of the corpus
}

var storings = []storing{
	{"plain", "", false},
	{"lz4", "{key: '*', setting: lz4}", false},
	{"zstd-3", "{key: '*', setting: zstd-3}", false},
	{"zstd-3+dict", "{key: '*', setting: zstd-3, dictionary: trained}", true},
}

// footprint holds the sizes of a corpus's records stored in one way.
type footprint struct {
	corpus     *corpus
	storing    string
	stored     int64 // bytes of the values stored in the server
	keys       int64 // MEMORY USAGE of all keys
	usedMemory int64 // growth of used_memory, the dictionary included
	dictionary int64 // bytes of the dictionary
}

func (o *options) measureSizes(all []corpus) error {
	var results []footprint
	for i := range all {
		c := &all[i]
		for _, st := range storings {
			f, err := o.footprint(c, st)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", c.name, st.name, err)
			}
			fmt.Printf("%-10s %-12s raw %9d stored %9d used_memory %9d\n", c.name, st.name, corpora.TotalBytes(c.measured), f.stored, f.usedMemory)
			results = append(results, f)
		}
	}
	if err := writeSizes(filepath.Join(o.results, "redis.csv"), results); err != nil {
		return err
	}
	return o.report("sizes", splitTable(all)+"\n"+sizesTable(results))
}

// footprint stores the records through a gateway into an empty server, reads them back through it, compares
// them, and measures the server when the gateway has ended.
func (o *options) footprint(c *corpus, st storing) (f footprint, err error) {
	f = footprint{corpus: c, storing: st.name}
	dict, err := o.dictionary(c, st)
	if err != nil {
		return f, err
	}
	if f.dictionary, err = fileSize(dict); err != nil {
		return f, err
	}
	server, err := rig.Redis(o.work)
	if err != nil {
		return f, err
	}
	defer server.Stop()
	client := server.Client()
	defer client.Close()
	before, err := rig.UsedMemory(client)
	if err != nil {
		return f, err
	}
	if err := o.storeAll(server, c, st, dict); err != nil {
		return f, err
	}
	after, err := rig.UsedMemory(client)
	if err != nil {
		return f, err
	}
	f.usedMemory = after - before
	return f, f.addKeys(client)
}

func (o *options) storeAll(server *rig.Process, c *corpus, st storing, dict string) error {
	g, err := o.startGateway(server, st.rule, dict)
	if err != nil {
		return err
	}
	defer g.Stop()
	client := g.Client()
	defer client.Close()
	ctx := context.Background()
	if err := awaitDictionary(client, server, st); err != nil {
		return err
	}
	for i, v := range c.measured {
		if err := client.Set(ctx, key(i), v, 0).Err(); err != nil {
			return err
		}
	}
	for i, v := range c.measured {
		got, err := client.Get(ctx, key(i)).Bytes()
		if err != nil {
			return err
		}
		if !bytes.Equal(got, v) {
			return fmt.Errorf("record %d was read back different", i)
		}
	}
	return nil
}

// awaitDictionary waits until the gateway uses the dictionary, if there is one.
func awaitDictionary(client *redis.Client, server *rig.Process, st storing) error {
	if !st.trained {
		return nil
	}
	return rig.AwaitDictionary(client, server)
}

func key(i int) string { return "record:" + strconv.Itoa(i) }

func (f *footprint) addKeys(client *redis.Client) error {
	ctx := context.Background()
	for i := range f.corpus.measured {
		n, err := client.StrLen(ctx, key(i)).Result()
		if err != nil {
			return err
		}
		m, err := client.MemoryUsage(ctx, key(i)).Result()
		if err != nil {
			return err
		}
		f.stored += n
		f.keys += m
	}
	return nil
}

// dictionary trains a dictionary from the corpus's training side and returns its file, "" for none.
func (o *options) dictionary(c *corpus, st storing) (string, error) {
	if !st.trained {
		return "", nil
	}
	file := filepath.Join(o.work, c.name+".dict")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	dir := filepath.Join(o.work, c.name+".train")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	for i, v := range c.train {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%06d", i)), v, 0o600); err != nil {
			return "", err
		}
	}
	out, err := exec.Command(o.cinch, "dict", "train", "--out", file, dir).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("cinch dict train: %w\n%s", err, out)
	}
	return file, nil
}

func fileSize(path string) (int64, error) {
	if path == "" {
		return 0, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func writeSizes(path string, results []footprint) error {
	rows := [][]string{{"corpus", "class", "storing", "records", "value_bytes", "stored_bytes", "keys_memory_bytes", "used_memory_bytes", "dictionary_bytes", "stored_ratio", "used_memory_ratio"}}
	var plain int64
	for _, f := range results {
		if f.storing == "plain" {
			plain = f.usedMemory
		}
		raw := int64(corpora.TotalBytes(f.corpus.measured))
		row := []string{f.corpus.name, f.corpus.class, f.storing}
		for _, n := range []int64{int64(len(f.corpus.measured)), raw, f.stored, f.keys, f.usedMemory, f.dictionary} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		row = append(row, ratio(raw, f.stored), ratio(plain, f.usedMemory))
		rows = append(rows, row)
	}
	return rig.WriteCSV(path, rows)
}

func ratio(a, b int64) string { return strconv.FormatFloat(float64(a)/float64(b), 'f', 2, 64) }

// sizesTable shows value bytes, the keys' memory (which grows with the records) and used_memory (in which a
// dictionary counts once, whatever the number of records).
func sizesTable(results []footprint) string {
	var b rig.Table
	b.Row("corpus", "records", "bytes a value", "storing", "value bytes", "keys' memory", "used_memory", "dictionary KB")
	b.Rule(8)
	var plain footprint
	for _, f := range results {
		if f.storing == "plain" {
			plain = f
		}
		n := len(f.corpus.measured)
		raw := int64(corpora.TotalBytes(f.corpus.measured))
		b.Row(f.corpus.name, strconv.Itoa(n), strconv.FormatInt(raw/int64(n), 10), f.storing,
			ratio(raw, f.stored)+"x", ratio(plain.keys, f.keys)+"x", ratio(plain.usedMemory, f.usedMemory)+"x", fmt.Sprintf("%.0f", float64(f.dictionary)/1024))
	}
	return b.String()
}

// splitTable describes each corpus and its split.
func splitTable(all []corpus) string {
	var b rig.Table
	b.Row("corpus", "class", "what, by which source", "trained on", "measured on")
	b.Rule(5)
	for _, c := range all {
		b.Row(c.name, c.class, c.about, fmt.Sprintf("%d of %d sources", len(c.train), c.sources[0]),
			fmt.Sprintf("%d of %d sources", len(c.measured), c.sources[1]))
	}
	return b.String()
}
