// Command mongo measures MongoDB operations over emulated links: bytes on the link an
// operation, and how long it takes, for a driver alone and through gateways.
//
//	go run ./bench/mongo -mongod ~/.cache/cinch-test/mongod-6.0.5/mongod [-ops 300] [-mbit 0,450,100,50] [-rtt 1.5ms] [-csv FILE]
//
//	driver -> link -> mongod
//	driver -> gateway -> link -> mongod
package main

import (
	"context"
	"encoding/csv"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

var (
	mongod = flag.String("mongod", "mongod", "the server's program")
	ops    = flag.Int("ops", 300, "operations measured, after a tenth of that to warm up")
	mbits  = flag.String("mbit", "0,450,100,50", "rates of the link; 0: no limit")
	rtt    = flag.Duration("rtt", 1500*time.Microsecond, "round trip of the link")
	file   = flag.String("csv", "", "also write the table there")
)

// ways to reach the server: the driver's compressor, and the gateway's setting ("": none).
var ways = []struct{ name, driver, gateway string }{
	{"plain", "", ""},
	{"driver snappy", "snappy", ""},
	{"driver zstd", "zstd", ""},
	{"driver zlib", "zlib", ""},
	{"gateway off", "", "raw"},
	{"gateway snappy", "", "snappy"},
	{"gateway zstd", "", "zstd-3"},
	{"gateway auto", "", "auto"},
}

func main() {
	flag.Parse()
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	work, err := os.MkdirTemp("", "bench-mongo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	server, stop, err := startServer(work)
	if err != nil {
		return err
	}
	defer stop()
	cinch := filepath.Join(work, "cinch")
	if out, err := exec.Command("go", "build", "-o", cinch, "./cmd/cinch").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	rows := [][]string{{"operation", "mbit", "way", "bytes_up", "bytes_down", "p50_us", "p99_us"}}
	for _, text := range strings.Split(*mbits, ",") {
		mbit, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return err
		}
		k, err := startLink(server, *rtt, mbit)
		if err != nil {
			return err
		}
		for _, w := range ways {
			more, err := measureWay(cinch, work, k, w.name, w.driver, w.gateway, text)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			rows = append(rows, more...)
		}
		_ = k.listener.Close()
	}
	if *file == "" {
		return nil
	}
	f, err := os.Create(*file)
	if err != nil {
		return err
	}
	defer f.Close()
	return csv.NewWriter(f).WriteAll(rows)
}

func startServer(work string) (addr string, stop func(), err error) {
	addr, err = freeAddr()
	if err != nil {
		return "", nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	data := filepath.Join(work, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return "", nil, err
	}
	cmd := exec.Command(*mongod, "--port", port, "--bind_ip", "127.0.0.1", "--dbpath", data, "--wiredTigerCacheSizeGB", "0.5", "--logpath", filepath.Join(work, "log"))
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	c, err := mongo.Connect(options.Client().ApplyURI("mongodb://" + addr + "/?directConnection=true"))
	if err != nil {
		stop()
		return "", nil, err
	}
	defer func() { _ = c.Disconnect(context.Background()) }()
	_, err = c.Database("shop").Collection("users").InsertMany(context.Background(), users(0, 10000))
	return addr, stop, err
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// measureWay runs all operations in one way over one link.
func measureWay(cinch, work string, k *link, name, driver, setting, mbit string) ([][]string, error) {
	addr := k.addr()
	if setting != "" {
		stop, at, err := startGateway(cinch, work, addr, setting)
		if err != nil {
			return nil, err
		}
		defer stop()
		addr = at
	}
	o := options.Client().ApplyURI("mongodb://" + addr + "/?directConnection=true").SetHeartbeatInterval(time.Hour)
	if driver != "" {
		o.SetCompressors([]string{driver})
	}
	c, err := mongo.Connect(o)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Disconnect(context.Background()) }()
	var rows [][]string
	for _, op := range operations(c.Database("shop")) {
		row, err := measure(k, op.run)
		if err != nil {
			return nil, err
		}
		rows = append(rows, append([]string{op.name, mbit, name}, row...))
		fmt.Printf("%-11s %5s Mbit/s  %-15s up %6s down %6s bytes  p50 %6s p99 %6s us\n", op.name, mbit, name, row[0], row[1], row[2], row[3])
	}
	return rows, nil
}

func startGateway(cinch, work, upstream, setting string) (stop func(), addr string, err error) {
	if addr, err = freeAddr(); err != nil {
		return nil, "", err
	}
	config := filepath.Join(work, "cinch.yaml")
	text := fmt.Sprintf("admin: {listen: off}\nlog: {level: warn}\ngateways:\n  - {name: db, protocol: mongo, listen: %q, upstream: \"mongodb://%s\", rules: [{setting: %s, min_gain: 5%%}]}\n", addr, upstream, setting)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, "", err
	}
	cmd := exec.Command(cinch, "serve", "--config", config)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	for range 200 {
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }, addr, nil
}

type operation struct {
	name string
	run  func(i int) error
}

func operations(db *mongo.Database) []operation {
	coll, ctx := db.Collection("users"), context.Background()
	find := func(n int) func(int) error {
		return func(i int) error {
			from := i * 37 % 9000
			cursor, err := coll.Find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$gte", Value: from}}}}, options.Find().SetLimit(int64(n)).SetSort(bson.D{{Key: "_id", Value: 1}}).SetBatchSize(int32(n+1)))
			if err != nil {
				return err
			}
			var all []bson.Raw
			return cursor.All(ctx, &all)
		}
	}
	copies := db.Collection(fmt.Sprintf("copies%d", time.Now().UnixNano()))
	insert := func(n int) func(int) error {
		return func(i int) error {
			docs := users(i*n, n)
			for j := range docs {
				docs[j] = docs[j].(bson.D)[1:]
			}
			if n == 1 {
				_, err := copies.InsertOne(ctx, docs[0])
				return err
			}
			_, err := copies.InsertMany(ctx, docs)
			return err
		}
	}
	return []operation{
		{"find 100", find(100)},
		{"find 10", find(10)},
		{"find 1", find(1)},
		{"insert 100", insert(100)},
		{"insert 1", insert(1)},
		{"update", func(i int) error {
			_, err := coll.UpdateByID(ctx, i%10000, bson.D{{Key: "$inc", Value: bson.D{{Key: "visits", Value: 1}}}})
			return err
		}},
		{"ping", func(int) error { return db.RunCommand(ctx, bson.D{{Key: "ping", Value: 1}}).Err() }},
	}
}

// measure returns bytes up and down an operation, and p50 and p99 in microseconds.
func measure(k *link, run func(int) error) ([]string, error) {
	for i := range max(*ops/10, 10) {
		if err := run(i); err != nil {
			return nil, err
		}
	}
	up, down := k.up.bytes.Load(), k.down.bytes.Load()
	times := make([]time.Duration, *ops)
	for i := range times {
		began := time.Now()
		if err := run(1000 + i); err != nil {
			return nil, err
		}
		times[i] = time.Since(began)
	}
	time.Sleep(20 * time.Millisecond)
	up, down = k.up.bytes.Load()-up, k.down.bytes.Load()-down
	slices.Sort(times)
	n := int64(*ops)
	return []string{
		fmt.Sprint(up / n), fmt.Sprint(down / n),
		fmt.Sprint(times[len(times)/2].Microseconds()), fmt.Sprint(times[len(times)*99/100].Microseconds()),
	}, nil
}

// users are documents of about 345 bytes.
func users(from, n int) []any {
	cities := []string{"Zürich", "Lisboa", "Porto Alegre", "Nairobi"}
	docs := make([]any, n)
	for k := range docs {
		i := from + k
		docs[k] = bson.D{
			{Key: "_id", Value: i},
			{Key: "name", Value: fmt.Sprintf("User %d of the house of %x", i, i*7919)},
			{Key: "email", Value: fmt.Sprintf("user.%d@mail-%d.example.com", i, i%17)},
			{Key: "street", Value: fmt.Sprintf("%d Long Meadow Road, Building %d", i%900, i%40)},
			{Key: "city", Value: cities[i%4]},
			{Key: "active", Value: i%3 == 0},
			{Key: "visits", Value: int64(i * 31)},
			{Key: "tags", Value: bson.A{"customer", "newsletter", fmt.Sprintf("segment-%d", i%12)}},
			{Key: "token", Value: fmt.Sprintf("%08x-%08x-%08x", uint32(i*2654435761), uint32(i*40503), uint32(i*97))},
		}
	}
	return docs
}
