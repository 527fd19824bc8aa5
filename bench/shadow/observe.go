package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/rig"
)

// observed holds the metrics of a gateway whose rule has mode: observe, for a load.
type observed struct {
	load    load
	setting string
	metrics string
	stored  int64 // bytes at the server
}

// observe runs each load through a gateway in observe mode, with the rules that a user would consider.
func (b *bench) observe() (string, error) {
	var t rig.Table
	t.Row("load", "setting", "values", "bytes", "would be stored", "ratio", "sealing, µs a value", "opening, µs a value", "stored")
	t.Rule(9)
	for _, l := range loads() {
		settings := []string{"zstd-1", "zstd-3"}
		if l.keys == "record:" {
			settings = append(settings, "zstd-3 with a dictionary of such records")
		}
		for _, setting := range settings {
			o, err := b.observeOne(l, setting)
			if err != nil {
				return "", fmt.Errorf("%s: %w", l.name, err)
			}
			o.row(&t)
		}
	}
	return "Each value is set once through `cinch serve` with one rule of `mode: observe`, before a real Redis; what was stored is read back directly.\n\n" + t.String(), nil
}

func (b *bench) observeOne(l load, setting string) (*observed, error) {
	o := &observed{load: l, setting: setting}
	server, err := rig.Redis(b.work)
	if err != nil {
		return nil, err
	}
	defer server.Stop()
	rule, dictionary, _ := strings.Cut(setting, " with ")
	if dictionary != "" {
		number, err := b.dictionary(l, server)
		if err != nil {
			return nil, err
		}
		rule += "@" + number
	}
	gateway, admin, err := b.observer(server, "key="+l.keys+"*,mode=observe,setting="+rule)
	if err != nil {
		return nil, err
	}
	defer gateway.Stop()
	if err := l.fill(gateway); err != nil {
		return nil, err
	}
	if o.stored, err = l.asItCame(server); err != nil {
		return nil, err
	}
	o.metrics, err = fetch("http://" + admin + "/metrics")
	return o, err
}

// observer starts a gateway with a rule, and returns it with its admin address.
func (b *bench) observer(server *rig.Process, rule string) (gateway *rig.Process, admin string, err error) {
	addr, err := rig.FreeAddr()
	if err != nil {
		return nil, "", err
	}
	if admin, err = rig.FreeAddr(); err != nil {
		return nil, "", err
	}
	gateway, err = rig.StartListener("cinch", addr, b.work, b.cinch, "serve", "--redis", addr+"=redis://"+server.Addr, "--admin", admin, "--rule", rule)
	return gateway, admin, err
}

// asItCame returns the total size of the stored values, and fails if one differs from the value that was set.
func (l *load) asItCame(server *rig.Process) (sum int64, err error) {
	c := goredis.NewClient(&goredis.Options{Addr: server.Addr})
	defer c.Close()
	for n, v := range l.values {
		at, err := c.Get(context.Background(), l.keys+strconv.Itoa(n)).Bytes()
		if err != nil {
			return 0, err
		}
		if !bytes.Equal(at, v) {
			return 0, fmt.Errorf("%s%d was stored changed", l.keys, n)
		}
		sum += int64(len(at))
	}
	return sum, nil
}

func fetch(url string) (string, error) {
	r, err := http.Get(url)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return string(text), err
}

func (o *observed) row(t *rig.Table) {
	values, raw, stored := sample(o.metrics, "cinch_values_observed_total"), sample(o.metrics, "cinch_observed_raw_bytes_total"), sample(o.metrics, "cinch_observed_stored_bytes_total")
	micros := func(name string) string { return fmt.Sprintf("%.1f", 1e6*sample(o.metrics, name)/values) }
	t.Row(o.load.name, o.setting, fmt.Sprint(values), fmt.Sprint(int64(raw)), fmt.Sprint(int64(stored)), fmt.Sprintf("%.2f", raw/stored),
		micros("cinch_observed_seal_cpu_seconds_total"), micros("cinch_observed_open_cpu_seconds_total"), fmt.Sprintf("%d bytes, as they came", o.stored))
}

// sample returns the sum of a metric over its labels.
func sample(text, name string) (sum float64) {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name+"{")
		if !ok {
			continue
		}
		_, value, _ := strings.Cut(rest, "} ")
		v, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
		sum += v
	}
	return sum
}
