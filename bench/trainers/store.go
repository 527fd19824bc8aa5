package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/test/rig"
)

var storeHeads = []string{
	"corpus", "values stored", "bytes a value", "uncompressed KB", "zstd-3", "best by hand", "its KB",
	"auto, first", "its KB", "CPU, s", "auto", "its KB", "CPU, s", "**points behind**",
}

// measureStore fills a redis-server with measured values, as many as were learned from, once for each way to compress
// them, dictionary and record included, and writes how much of its used_memory each saves.
func (o *options) measureStore(t *results, c *corpus) error {
	plain, without, best, bestDict, err := o.bestByHand(c)
	if err != nil {
		return err
	}
	soon, err := first(c)
	if err != nil {
		return err
	}
	early, err := o.used(c, soon.dict, soon.level, true)
	if err != nil {
		return err
	}
	chosen, err := auto(c, 1)
	if err != nil {
		return err
	}
	final, err := o.used(c, chosen.dict, chosen.level, true)
	if err != nil {
		return err
	}
	saved := func(n int) float64 { return 100 * (1 - float64(n)/float64(plain)) }
	percent := func(n int) string { return fmt.Sprintf("%.1f %%", saved(n)) }
	total := 0
	for _, v := range c.measure {
		total += len(v)
	}
	cells := []string{
		c.name, strconv.Itoa(len(c.learn)), strconv.Itoa(total / len(c.measure)), strconv.Itoa(plain / 1000), percent(without), percent(best), (&trained{dict: bestDict}).kb(),
		percent(early), soon.kb(), soon.seconds(), percent(final), chosen.kb(), chosen.seconds(), fmt.Sprintf("**%.1f**", saved(best)-saved(final)),
	}
	fmt.Println(strings.Join(cells, "\t"))
	t.lines[c.name] = cells
	return nil
}

// bestByHand returns the used_memory of plain values, that without a dictionary, the least with one of those that are
// made by hand, and that dictionary, nil if it is no less.
func (o *options) bestByHand(c *corpus) (plain, without, least int, best *codec.Dict, err error) {
	if plain, err = o.used(c, nil, 0, false); err != nil {
		return 0, 0, 0, nil, err
	}
	if without, err = o.used(c, nil, 0, true); err != nil {
		return 0, 0, 0, nil, err
	}
	all, err := trainByHand(c)
	least = without
	for _, d := range all {
		if d == nil || err != nil {
			continue
		}
		var n int
		if n, err = o.used(c, d, 0, true); err == nil && n < least {
			least, best = n, d
		}
	}
	return plain, without, least, best, err
}

var packHeads = []string{
	"store", "values", "bytes a value", "uncompressed KB", "zstd-3", "best by hand", "its KB", "`cinch pack`", "its KB", "CPU, s", "wall, s", "**points behind**",
}

// packMeasurer returns a function that packs a redis-server by a real `cinch pack`, with its defaults.
func (o *options) packMeasurer() (func(*results, *corpus) error, error) {
	cinch := filepath.Join(o.work, "cinch")
	if err := rig.Build(cinch, "./cmd/cinch"); err != nil {
		return nil, err
	}
	return func(t *results, c *corpus) error { return o.measurePack(t, c, cinch) }, nil
}

func (o *options) measurePack(t *results, c *corpus, cinch string) error {
	plain, without, best, bestDict, err := o.bestByHand(c)
	if err != nil {
		return err
	}
	server, err := rig.Redis(o.work)
	if err != nil {
		return err
	}
	defer server.Stop()
	empty, err := usedMemory(server)
	if err != nil {
		return err
	}
	client := server.Client()
	defer client.Close()
	if err := c.fill(client, func(v []byte) []byte { return v }); err != nil {
		return err
	}
	begin := time.Now()
	pack := exec.Command(cinch, "pack", "redis://"+server.Addr)
	if text, err := pack.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	wall, cpu := time.Since(begin), pack.ProcessState.UserTime()+pack.ProcessState.SystemTime()
	packed, err := usedMemory(server)
	if err != nil {
		return err
	}
	packed -= empty
	infos, err := redis.NewDicts(redis.DictsOptions{Client: server.Client()}).List(context.Background())
	if err != nil {
		return err
	}
	bytes := 0
	for _, i := range infos {
		bytes += i.Bytes
	}
	saved := func(n int) float64 { return 100 * (1 - float64(n)/float64(plain)) }
	total := 0
	for _, v := range c.learn {
		total += len(v)
	}
	cells := []string{
		c.name, strconv.Itoa(len(c.learn)), strconv.Itoa(total / len(c.learn)), strconv.Itoa(plain / 1000),
		fmt.Sprintf("%.1f %%", saved(without)), fmt.Sprintf("%.1f %%", saved(best)), (&trained{dict: bestDict}).kb(),
		fmt.Sprintf("%.1f %%", saved(packed)), strconv.Itoa((bytes + 512) >> 10), fmt.Sprintf("%.1f", cpu.Seconds()), fmt.Sprintf("%.1f", wall.Seconds()),
		fmt.Sprintf("**%.1f**", saved(best)-saved(packed)),
	}
	fmt.Println(strings.Join(cells, "\t"))
	t.lines[c.name] = cells
	return nil
}

// fill stores as many values as were learned from, of the measured ones.
func (c *corpus) fill(client *goredis.Client, seal func([]byte) []byte) (err error) {
	ctx := context.Background()
	for i := range c.learn {
		v := seal(c.measure[i%len(c.measure)])
		if c.inHashes() {
			err = client.HSet(ctx, fmt.Sprint(c.name, ":", i), "body", v).Err()
		} else {
			err = client.Set(ctx, fmt.Sprint(c.name, ":", i), v, 0).Err()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// used returns the used_memory that the measured values take in a redis-server of their own, with the dictionary and a
// record, if there is one.
func (o *options) used(c *corpus, d *codec.Dict, level int, compress bool) (int, error) {
	server, err := rig.Redis(o.work)
	if err != nil {
		return 0, err
	}
	defer server.Stop()
	client := server.Client()
	defer client.Close()
	ctx := context.Background()
	empty, err := usedMemory(server)
	if err != nil {
		return 0, err
	}
	p, err := policyFor(c.name)
	if err != nil {
		return 0, err
	}
	st, so := codec.Setting{Codec: codec.Zstd, Level: 3}, envelope.SealerOptions{Engine: newEngine()}
	if level > 0 {
		st.Level = level
	}
	if d != nil {
		dicts := redis.NewDicts(redis.DictsOptions{Client: client})
		if err := dicts.Publish(ctx, d); err != nil {
			return 0, err
		}
		if _, err := dicts.ReplaceRecord(ctx, "bench", 0, strings.Repeat("x", 600)); err != nil {
			return 0, err
		}
		st.Dict, so.Dicts = d.Number(), dicts
	}
	kind := policy.String
	if c.inHashes() {
		kind = policy.Hash
	}
	s, worth := envelope.NewSealer(so), p.Rules()[0].SavesEnoughFunc(kind)
	err = c.fill(client, func(v []byte) []byte {
		if compress {
			return s.Seal(nil, v, st, worth)
		}
		return v
	})
	if err != nil {
		return 0, err
	}
	full, err := usedMemory(server)
	return full - empty, err
}

// usedMemory returns what the server says when one new connection is all that there is, so that no buffer counts.
func usedMemory(server *rig.Process) (int, error) {
	c := server.Client()
	defer c.Close()
	ctx := context.Background()
	if err := c.Do(ctx, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
		return 0, err
	}
	for !strings.Contains(c.Info(ctx, "clients").Val(), "connected_clients:1\r\n") {
		time.Sleep(10 * time.Millisecond) // the others are closed soon
	}
	// A command's first use takes 50 KB for its latencies, and slow ones stay in a log: the server's, not the store's.
	if err := errors.Join(c.SlowLogReset(ctx).Err(), c.ConfigResetStat(ctx).Err()); err != nil {
		return 0, err
	}
	text, err := c.Info(ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(text, "used_memory:")
	digits, _, _ := strings.Cut(rest, "\r\n")
	return strconv.Atoi(digits)
}

// measureHomes writes what dictionaries take in servers of several versions, as they are stored now and as the function
// of a library returned them in 0.1.0.
func (o *options) measureHomes() error {
	var table rig.Table
	table.Row("server", "corpus", "dictionary, bytes", "stored, bytes of used_memory", "of its size", "as 0.1.0 stored it", "of its size")
	table.Rule(7)
	for _, program := range strings.Split(o.home, ",") {
		if err := o.measureHome(program, &table); err != nil {
			return fmt.Errorf("%s: %w", program, err)
		}
	}
	return rig.ReplacePart(filepath.Join(o.results, "corpora.md"), "home", table.String())
}

func (o *options) measureHome(program string, table *rig.Table) error {
	addr, err := rig.FreeAddr()
	if err != nil {
		return err
	}
	_, port, _ := strings.Cut(addr, ":")
	dir, err := os.MkdirTemp(o.work, "home-")
	if err != nil {
		return err
	}
	server, err := rig.Start("redis-server", addr, dir, program, "--port", port, "--save", "", "--daemonize", "no")
	if err != nil {
		return err
	}
	defer server.Stop()
	client := server.Client()
	defer client.Close()
	ctx := context.Background()
	text, err := client.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	version := "Redis " + infoField(text, "redis_version")
	if v := infoField(text, "valkey_version"); v != "" {
		version = "Valkey " + v
	}
	dicts := redis.NewDicts(redis.DictsOptions{Client: client})
	for _, name := range []string{"events", "countries", "html"} {
		c, err := load(o.cache, kindNamed(name))
		if err != nil {
			return err
		}
		s, err := dict.Select(c.learn, dict.TrainOptions{Algorithm: dict.Cover, Size: 64 << 10, Segment: 400})
		if err != nil {
			return err
		}
		for _, size := range []int{4 << 10, 16 << 10, 64 << 10} {
			d, err := s.Dict(size)
			if err != nil {
				return err
			}
			now, err := taken(server, func() error { return dicts.Publish(ctx, d) })
			if err != nil {
				return err
			}
			before, err := taken(server, func() error { return loadAsBefore(ctx, client, d) })
			if err != nil {
				return err
			}
			n := float64(len(d.Content()))
			table.Row(version, name, strconv.Itoa(len(d.Content())), strconv.Itoa(now), fmt.Sprintf("**%.2f**", float64(now)/n), strconv.Itoa(before), fmt.Sprintf("%.2f", float64(before)/n))
		}
	}
	return nil
}

func kindNamed(name string) *kind {
	for i := range kinds {
		if kinds[i].name == name {
			return &kinds[i]
		}
	}
	return nil
}

func infoField(info, name string) string {
	_, rest, _ := strings.Cut(info, "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

// taken returns by how much used_memory grows when a library is loaded: the least of three loads, since the server's
// own tables grow now and then.
func taken(server *rig.Process, loadLibrary func() error) (least int, err error) {
	c := server.Client()
	defer c.Close()
	for range 3 {
		if err := c.FunctionFlush(context.Background()).Err(); err != nil {
			return 0, err
		}
		before, err := usedMemory(server)
		if err != nil {
			return 0, err
		}
		if err := loadLibrary(); err != nil {
			return 0, err
		}
		after, err := usedMemory(server)
		if err != nil {
			return 0, err
		}
		if n := after - before; n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least, nil
}

// loadAsBefore loads the library that 0.1.0 made of a dictionary.
func loadAsBefore(ctx context.Context, c *goredis.Client, d *codec.Dict) error {
	code := fmt.Sprintf("#!lua name=cinch_dict_%08[1]x\nredis.register_function{function_name = 'cinch_dict_%08[1]x', description = 'sha256 %[2]x, %[3]d bytes', "+
		"flags = {'no-writes'}, callback = function() return '%[4]s' end}\n", d.Number(), d.Hash(), len(d.Content()), base64.StdEncoding.EncodeToString(d.Content()))
	return c.FunctionLoad(ctx, code).Err()
}
