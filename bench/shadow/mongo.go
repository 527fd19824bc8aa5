package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"filippo.io/age"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/test/rig"
)

// The same verdict for MongoDB. The gateway changes no document: it compresses the messages between itself
// and the server.
const (
	orders     = 2000 // documents
	orderItems = 12
	pageSize   = 20
	orderPause = 3 * time.Millisecond // of a client between two operations
	orderBatch = time.Second
)

// order is a document of about 1 KB.
func order(n, version int) bson.D {
	r := rand.New(rand.NewPCG(uint64(n), 7))
	items := bson.A{}
	for range orderItems {
		items = append(items, bson.D{
			{Key: "sku", Value: fmt.Sprintf("sku-%05d", r.IntN(20_000))},
			{Key: "quantity", Value: 1 + r.IntN(5)},
			{Key: "price", Value: float64(r.IntN(10_000)) / 100},
			{Key: "note", Value: pick(r, "gift wrap", "", "leave at the door", "fragile")},
		})
	}
	return bson.D{
		{Key: "_id", Value: n},
		{Key: "customer", Value: fmt.Sprintf("c%06x", r.Uint32()>>8)},
		{Key: "version", Value: version},
		{Key: "status", Value: pick(r, "new", "paid", "sent", "returned")},
		{Key: "created", Value: time.UnixMilli(1_700_000_000_000 + int64(n)*60_000)},
		{Key: "items", Value: items},
	}
}

// judgeMongo records a load and replays it, directly and through Cinch.
func (b *bench) judgeMongo(length time.Duration) (string, error) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return "", err
	}
	key, tape := filepath.Join(b.work, "mongo-key.txt"), filepath.Join(b.work, "mongo.cinchrec")
	if err := os.WriteFile(key, []byte(identity.String()), 0o600); err != nil {
		return "", err
	}
	if err := b.recordMongo(tape, identity.Recipient().String(), length); err != nil {
		return "", err
	}
	report, err := b.replayMongo(tape, key)
	if err != nil {
		return "", err
	}
	fmt.Printf("MongoDB: %s\n", report.Outcome)
	return mongoTable(report, length), nil
}

// mongod starts a server that holds the orders.
func (b *bench) mongod() (*rig.Process, error) {
	addr, err := rig.FreeAddr()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	dir, err := os.MkdirTemp(b.work, "mongod-")
	if err != nil {
		return nil, err
	}
	p, err := rig.StartListener("mongod", addr, dir, mongodProgram(), "--port", port, "--bind_ip", "127.0.0.1", "--dbpath", dir,
		"--wiredTigerCacheSizeGB", "0.25", "--networkMessageCompressors", "zstd,snappy,zlib", "--setParameter", "diagnosticDataCollectionEnabled=false")
	if err != nil {
		return nil, err
	}
	c, err := connectMongo(addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Disconnect(context.Background()) }()
	var all []any
	for n := range orders {
		all = append(all, order(n, 0))
	}
	_, err = c.Database("shop").Collection("orders").InsertMany(context.Background(), all)
	return p, err
}

func mongodProgram() string {
	if cache, err := os.UserCacheDir(); err == nil {
		path := filepath.Join(cache, "cinch-test", "mongod-6.0.5", "mongod")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return "mongod"
}

func connectMongo(addr string) (*mongo.Client, error) {
	return mongo.Connect(options.Client().ApplyURI("mongodb://" + addr + "/?directConnection=true&maxPoolSize=1"))
}

// recordMongo runs clients through cinch record for the given time.
func (b *bench) recordMongo(tape, recipient string, length time.Duration) error {
	production, err := b.mongod()
	if err != nil {
		return err
	}
	defer production.Stop()
	addr, err := rig.FreeAddr()
	if err != nil {
		return err
	}
	recorder, err := rig.StartListener("record", addr, b.work, b.cinch, "record", "--mongo", addr+"=mongodb://"+production.Addr,
		"--to", tape, "--recipient", recipient, "--limit", "4GiB", "--bound", "1s", "--exit")
	if err != nil {
		return err
	}
	defer recorder.Stop()
	failed := make([]error, verdictClients)
	var working sync.WaitGroup
	for n := range verdictClients {
		working.Go(func() { failed[n] = workMongo(addr, uint64(n), length) })
	}
	working.Wait()
	fmt.Println("MongoDB: recorded")
	return errors.Join(failed...)
}

// workMongo finds orders and pages of them, and changes some. Each client has orders of its own.
func workMongo(addr string, client uint64, length time.Duration) error {
	ctx := context.Background()
	c, err := connectMongo(addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Disconnect(ctx) }()
	all := c.Database("shop").Collection("orders")
	r := rand.New(rand.NewPCG(client, 1))
	for i, end := 0, time.Now().Add(length); time.Now().Before(end); i++ {
		n := r.IntN(orders/verdictClients)*verdictClients + int(client)
		var err error
		switch kind := r.Float64(); {
		case kind < 0.6:
			err = all.FindOne(ctx, bson.D{{Key: "_id", Value: n}}).Err()
		case kind < 0.8:
			var page []bson.Raw
			var found *mongo.Cursor
			found, err = all.Find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$gte", Value: n}}}}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}).SetLimit(pageSize))
			if err == nil {
				err = found.All(ctx, &page)
			}
		default:
			_, err = all.ReplaceOne(ctx, bson.D{{Key: "_id", Value: n}}, order(n, i))
		}
		if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
			return err
		}
		time.Sleep(orderPause)
	}
	return nil
}

// replayMongo replays the recording to two servers with production's initial data.
func (b *bench) replayMongo(tape, key string) (*shadow.Report, error) {
	var targets [2]*rig.Process
	for i := range targets {
		var err error
		if targets[i], err = b.mongod(); err != nil {
			return nil, err
		}
		defer targets[i].Stop()
	}
	var out, said bytes.Buffer
	cmd := exec.Command(b.cinch, "replay", tape, "--identity", key, "--control", "mongodb://"+targets[0].Addr, "--test", "cinch=mongodb://"+targets[1].Addr,
		"--batch", orderBatch.String(), "--self-test=false", "--json")
	cmd.Stdout, cmd.Stderr = &out, &said
	failed := cmd.Run() // a verdict other than PASS exits with an error too
	report := &shadow.Report{}
	if err := json.Unmarshal(out.Bytes(), report); err != nil {
		return nil, fmt.Errorf("%w: %w: %s", failed, err, said.String())
	}
	return report, nil
}

// mongoTable formats the results.
func mongoTable(r *shadow.Report, length time.Duration) string {
	var t rig.Table
	fmt.Fprintf(&t, "MongoDB: %d orders of about 1 KB, %d clients of which each finds one (60 %%), finds %d (20 %%) or replaces one (20 %%), recorded for %v by `cinch record` and\nreplayed by `cinch replay --test cinch=URI` under the default rules: **%s**, %d answers alike, %d different.\n\n",
		orders, verdictClients, pageSize, length, r.Outcome, r.Compared.Equal, r.Compared.Different)
	t.Row("metric", "test to control", "interval", "batches A/A and test", "control, µs", "test, µs")
	t.Rule(6)
	for _, m := range r.Metrics {
		of, at := r.Reads, 0.5
		if strings.HasPrefix(m.Name, "writes") {
			of = r.Writes
		}
		if strings.HasSuffix(m.Name, "p99") {
			at = 0.99
		}
		interval := "not judged: too few operations a batch"
		switch {
		case m.Judged && m.High < 0:
			interval = "not known yet"
		case m.Judged:
			interval = fmt.Sprintf("%+.1f %% to %+.1f %%", 100*(m.Low-1), 100*(m.High-1))
		}
		c, through := quantile(of, at)
		t.Row(m.Name, fmt.Sprintf("%+.1f %%", 100*(m.Ratio-1)), interval, fmt.Sprintf("%d, %d", m.Baseline, m.Batches), fmt.Sprintf("%.0f", c), fmt.Sprintf("%.0f", through))
	}
	for _, why := range r.Reasons {
		t.Row(why, "", "", "", "", "")
	}
	return t.String()
}
