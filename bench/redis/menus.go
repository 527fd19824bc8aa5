package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/bench/corpora"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/link"
	"github.com/cinch-layer/cinch/test/rig/menus"
)

// The published case: 10,000 menus are written and read one after the other, over a link on which a plain GET
// takes 1.2 ms on average, of which the round trip is 0.2 ms.
//
//	client --------------> link -> redis-server       plain, snappy, lz4
//	client -> gateway ---> link -> redis-server       the gateway's
const (
	menuRoundTrip = 200 * time.Microsecond
	menuGet       = 1200 * time.Microsecond
	menuTurn      = 50 // menus of a way before the next way's turn
	trainMenus    = 150
	trainFrom     = 1_000_000 // number of the first menu to train on, far from the measured ones
)

// menuWay is a way to store menus, with a codec in the client or a rule of a gateway.
type menuWay struct {
	name   string
	client codec.ID // Raw: none
	storing
}

func menuWays() []menuWay {
	return []menuWay{
		{name: "plain"},
		{name: "client: snappy", client: codec.Snappy},
		{name: "client: lz4", client: codec.LZ4},
		{name: "gateway: lz4", storing: storings[1]},
		{name: "gateway: zstd-3", storing: storings[2]},
		{name: "gateway: zstd-3 and dictionary", storing: storings[3]},
	}
}

// menuLane is a running way with its own server, link and, where it has one, gateway.
type menuLane struct {
	menuWay
	engine   *codec.Engine
	server   *rig.Process
	links    *link.Links
	gateway  *rig.Process
	client   *redis.Client
	lens     []int // of the menus; a client must know them to decompress
	set, get []time.Duration
	up, down int64
	idle     int64 // used_memory before
	memory   int64 // growth of used_memory
}

func (o *options) measureMenus() error {
	values := make([][]byte, o.menus)
	for i := range values {
		values[i] = menus.Menu(i)
	}
	mbit, err := o.calibrate(values[:min(len(values), 300)])
	if err != nil {
		return err
	}
	lanes, err := o.startMenuLanes(mbit)
	defer stopMenuLanes(lanes)
	if err != nil {
		return err
	}
	for _, pass := range []func(*menuLane, int, [][]byte) error{(*menuLane).setMenus, (*menuLane).getMenus} {
		for from := 0; from < len(values); from += menuTurn {
			for _, l := range lanes {
				if err := pass(l, from, values[from:min(from+menuTurn, len(values))]); err != nil {
					return fmt.Errorf("%s: %w", l.name, err)
				}
			}
		}
		for _, l := range lanes {
			if err := l.take(); err != nil {
				return err
			}
		}
	}
	if err := o.reportMenus(lanes, values, mbit); err != nil {
		return err
	}
	return o.measurePeak(lanes, values, mbit)
}

// calibrate returns the rate, in Mbit/s, at which a plain GET takes menuGet.
func (o *options) calibrate(values [][]byte) (float64, error) {
	total := corpora.TotalBytes(values)
	mbit := float64(total) / float64(len(values)) * 8 / (menuGet - menuRoundTrip).Seconds() / 1e6
	for range 5 {
		l, err := o.startMenuLane(menuWays()[0], mbit)
		if err != nil {
			return 0, err
		}
		if err = l.setMenus(0, values); err == nil {
			err = l.getMenus(0, values)
		}
		l.stop()
		if err != nil {
			return 0, err
		}
		took := mean(l.get)
		fmt.Printf("calibration: %.0f Mbit/s: a plain GET takes %v\n", mbit, took)
		if took > menuGet*99/100 && took < menuGet*101/100 {
			return mbit, nil
		}
		onWire := time.Duration(float64(total) / float64(len(values)) * 8 / mbit * 1000)
		mbit *= float64(onWire) / float64(max(menuGet-(took-onWire), onWire/2))
	}
	return mbit, nil
}

func (o *options) startMenuLanes(mbit float64) (lanes []*menuLane, err error) {
	for _, w := range menuWays() {
		l, err := o.startMenuLane(w, mbit)
		if err != nil {
			return lanes, fmt.Errorf("%s: %w", w.name, err)
		}
		lanes = append(lanes, l)
	}
	return lanes, nil
}

func stopMenuLanes(lanes []*menuLane) {
	for _, l := range lanes {
		l.stop()
	}
}

func (o *options) startMenuLane(w menuWay, mbit float64) (l *menuLane, err error) {
	l = &menuLane{menuWay: w, engine: codec.New(codec.Options{})}
	dict, err := o.menuDictionary(w.storing)
	if err != nil {
		return nil, err
	}
	if l.server, err = rig.Redis(o.work); err != nil {
		return nil, err
	}
	if err := l.begin(o, mbit, dict); err != nil {
		l.stop()
		return nil, err
	}
	return l, nil
}

func (l *menuLane) begin(o *options, mbit float64, dict string) (err error) {
	if l.links, err = link.Start(menuRoundTrip, mbit, "127.0.0.1:0="+l.server.Addr); err != nil {
		return err
	}
	direct := l.server.Client()
	defer direct.Close()
	if l.idle, err = rig.InfoNumber(direct, "memory", "used_memory"); err != nil {
		return err
	}
	far := &rig.Process{Addr: l.links.Addrs[0]}
	if l.rule == "" {
		l.client = menuClient(far)
		return nil
	}
	if l.gateway, err = o.startGateway(far, l.rule, dict); err != nil {
		return err
	}
	l.client = menuClient(l.gateway)
	return awaitDictionary(l.client, l.server, l.storing)
}

// menuClient returns a client with a connection for each client at peak load.
func menuClient(p *rig.Process) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: p.Addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1, PoolSize: peakClients})
}

func (l *menuLane) stop() {
	if l.client != nil {
		_ = l.client.Close()
	}
	if l.gateway != nil {
		l.gateway.Stop()
	}
	if l.links != nil {
		l.links.Stop()
	}
	l.server.Stop()
}

func (o *options) menuDictionary(st storing) (string, error) {
	c := &corpus{name: "menus"}
	for i := range trainMenus {
		if m := menus.Menu(trainFrom + i); st.trained && len(m) < 128<<10 {
			c.train = append(c.train, m)
		}
	}
	return o.dictionary(c, st)
}

// setMenus writes menus. It times everything that an application waits for, including the client's own codec.
func (l *menuLane) setMenus(from int, values [][]byte) error {
	for i, v := range values {
		start := time.Now()
		if err := l.put(key(from+i), v); err != nil {
			return err
		}
		l.set = append(l.set, time.Since(start))
		l.lens = append(l.lens, len(v))
	}
	return nil
}

func (l *menuLane) put(key string, v []byte) (err error) {
	if l.compresses() {
		if v, err = l.engine.Compress(nil, v, codec.Setting{Codec: l.menuWay.client}, nil); err != nil {
			return err
		}
	}
	return l.client.Set(context.Background(), key, v, 0).Err()
}

// compresses reports whether the client itself compresses.
func (l *menuLane) compresses() bool { return l.menuWay.client != codec.Raw }

func (l *menuLane) getMenus(from int, values [][]byte) error {
	for i, v := range values {
		start := time.Now()
		got, err := l.fetch(from + i)
		if err != nil {
			return err
		}
		l.get = append(l.get, time.Since(start))
		if !bytes.Equal(got, v) {
			return fmt.Errorf("menu %d was read back different", from+i)
		}
	}
	return nil
}

func (l *menuLane) fetch(i int) ([]byte, error) {
	got, err := l.client.Get(context.Background(), key(i)).Bytes()
	if err != nil || !l.compresses() {
		return got, err
	}
	return l.engine.Decompress(nil, got, l.menuWay.client, l.lens[i], nil)
}

// take reads the counters after a pass: after the first, the bytes up and the memory; after the second, the
// bytes down.
func (l *menuLane) take() (err error) {
	up, down, err := l.links.Bytes()
	if err != nil {
		return err
	}
	if l.memory == 0 {
		l.up = up
		direct := l.server.Client()
		defer direct.Close()
		used, err := rig.InfoNumber(direct, "memory", "used_memory")
		l.memory, l.down = used-l.idle, down
		return err
	}
	l.down = down - l.down
	return nil
}

func (o *options) reportMenus(lanes []*menuLane, values [][]byte, mbit float64) error {
	var t rig.Table
	total := corpora.TotalBytes(values)
	fmt.Fprintf(&t, "%d menus, %d bytes on average, over a link of %v and %.0f Mbit/s.\n\n", len(values), total/len(values), menuRoundTrip, mbit)
	t.Row("way", "SETs, s", "mean ms", "p99 ms", "GETs, s", "mean ms", "p99 ms", "MB up", "MB down", "used_memory MB", "left, over all", "left, mean of values")
	t.Rule(12)
	rows := [][]string{{"way", "menus", "mbit", "set_seconds", "set_p99_us", "get_seconds", "get_p99_us", "up_bytes", "down_bytes", "used_memory_bytes"}}
	for _, l := range lanes {
		left, err := l.meanLeft()
		if err != nil {
			return err
		}
		set, get := mean(l.set), mean(l.get)
		sets, gets := set*time.Duration(len(l.set)), get*time.Duration(len(l.get))
		t.Row(l.name, fmt.Sprintf("%.1f", sets.Seconds()), millis(set), millis(quantile(l.set, 99)), fmt.Sprintf("%.1f", gets.Seconds()), millis(get), millis(quantile(l.get, 99)),
			mega(l.up), mega(l.down), mega(l.memory), fmt.Sprintf("%.1f %%", 100*float64(l.down)/float64(total)), fmt.Sprintf("%.1f %%", 100*left))
		rows = append(rows, []string{
			l.name, strconv.Itoa(len(values)), fmt.Sprintf("%.0f", mbit), fmt.Sprintf("%.2f", sets.Seconds()), strconv.FormatInt(quantile(l.set, 99).Microseconds(), 10),
			fmt.Sprintf("%.2f", gets.Seconds()), strconv.FormatInt(quantile(l.get, 99).Microseconds(), 10), strconv.FormatInt(l.up, 10), strconv.FormatInt(l.down, 10), strconv.FormatInt(l.memory, 10),
		})
	}
	if err := rig.WriteCSV(filepath.Join(o.results, "redis-menus.csv"), rows); err != nil {
		return err
	}
	return o.report("menus", t.String())
}

// meanLeft returns the stored share of a menu's size, averaged over menus.
func (l *menuLane) meanLeft() (float64, error) {
	direct := l.server.Client()
	defer direct.Close()
	sum := 0.0
	for i, n := range l.lens {
		stored, err := direct.StrLen(context.Background(), key(i)).Result()
		if err != nil {
			return 0, err
		}
		sum += float64(stored) / float64(n)
	}
	return sum / float64(len(l.lens)), nil
}

func mean(all []time.Duration) (sum time.Duration) {
	for _, d := range all {
		sum += d
	}
	return sum / time.Duration(max(len(all), 1))
}

func millis(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()*1000) }

func mega(n int64) string { return fmt.Sprintf("%.1f", float64(n)/1e6) }
