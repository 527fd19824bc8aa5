package plan

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store/mongo"
)

// MongoOptions limits what is asked of a MongoDB deployment.
type MongoOptions struct {
	Server   *mongo.Server
	Match    string  // only namespaces that match; "" for all
	MaxBytes int64   // of documents that are read; 0: 1 GiB
	Share    float64 // maximum share of the server's time; 0: 0.05
	Until    time.Time
	Batch    int // documents per reply; 0: what the server has counted, or a range
	Progress func(done float64, what string)
}

// Limits of what is held of a collection while its messages are modelled.
const (
	wantDocuments      = 2000
	wantDocumentBytes  = 8 << 20
	modelledExchanges  = 600
	modelledBytes      = 8 << 20
	modelledRequest    = 1_000_000 // request and reply numbers of modelled messages
	modelledReply      = 5_000_000
	mostDocumentsReply = 100000
)

// Mongo models the traffic to a MongoDB deployment: exchanges of a request and its reply, by collection and
// command, made from a sample of the documents, and weighted by the counts of the server or its profiler. It
// changes nothing.
func Mongo(ctx context.Context, c *Collector, o MongoOptions) (SourceInfo, error) {
	info := SourceInfo{Protocol: config.Mongo, Medium: price.OnWire, Whole: true}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 1 << 30
	}
	if o.Share <= 0 {
		o.Share = 0.05
	}
	w := &mongoWalk{c: c, o: o, info: &info, pace: pace{share: o.Share, began: time.Now()}}
	if err := w.prepare(ctx); err != nil {
		return info, err
	}
	for i, collection := range w.collections {
		if o.Progress != nil {
			o.Progress(float64(i)/float64(len(w.collections)), "reading "+collection.Namespace())
		}
		if err := w.collection(ctx, i, collection); err != nil {
			return info, fmt.Errorf("%s: %w", collection.Namespace(), err)
		}
	}
	w.conclude()
	return info, nil
}

type mongoWalk struct {
	c           *Collector
	o           MongoOptions
	info        *SourceInfo
	pace        pace
	collections []mongo.Collection
	activity    mongo.Activity
	profile     map[string][]mongo.Operation // by namespace, if the profiler records everything
	bytes       int64
	exchanges   float64 // that were counted
	counted     bool
}

func (w *mongoWalk) note(format string, args ...any) {
	w.info.Notes = append(w.info.Notes, fmt.Sprintf(format, args...))
}

func (w *mongoWalk) prepare(ctx context.Context) error {
	all, err := w.o.Server.Collections(ctx)
	if err != nil {
		return err
	}
	match := policy.Compile(w.o.Match)
	w.collections = slices.DeleteFunc(all, func(c mongo.Collection) bool {
		return w.o.Match != "" && !match.Match([]byte(c.Namespace()))
	})
	if len(w.collections) == 0 {
		return fmt.Errorf("%w: there is no collection that the user may see", ErrEmpty)
	}
	if w.activity, err = w.o.Server.Activity(ctx, w.collections); err != nil {
		return err
	}
	for _, n := range w.activity.Counts {
		w.counted = w.counted || n != (mongo.Counts{})
	}
	w.profile = make(map[string][]mongo.Operation)
	for i, c := range w.collections {
		if i > 0 && w.collections[i-1].Database == c.Database {
			continue
		}
		list, full, err := w.o.Server.Profile(ctx, c.Database)
		if err != nil {
			return err
		}
		for _, op := range list {
			if full {
				w.profile[op.Space] = append(w.profile[op.Space], op)
			}
		}
	}
	return nil
}

// collection reads documents of a collection, and models its exchanges from them.
func (w *mongoWalk) collection(ctx context.Context, i int, c mongo.Collection) error {
	left := int64(len(w.collections) - i)
	limit := min(wantDocumentBytes, (w.o.MaxBytes-w.bytes)/left)
	until := w.o.Until
	if !until.IsZero() {
		until = time.Now().Add(time.Until(until) / time.Duration(left))
		if time.Until(until) <= 0 {
			w.info.Whole = false
			w.note("time ran out before %s was read", c.Namespace())
			return nil
		}
	}
	var documents []bson.Raw
	var size int64
	want := max(wantDocuments, 4*max(w.o.Batch, int(w.activity.Returned), int(w.activity.Inserted))) // a message has at most half of them
	start := time.Now()
	total, err := w.o.Server.Documents(ctx, c, want, func(doc []byte) bool {
		documents = append(documents, bson.Raw(slices.Clone(doc)))
		size += int64(len(doc))
		return len(documents) < want && size < limit && (until.IsZero() || time.Now().Before(until))
	})
	if err != nil {
		return err
	}
	w.pace.waited(time.Since(start))
	w.bytes += size
	w.c.Names += int64(len(documents))
	w.info.Total += max(total, int64(len(documents)))
	// Neighbours may be alike, and the halves should not differ.
	rand.New(rand.NewPCG(uint64(len(documents)), 0)).Shuffle(len(documents), func(i, j int) { documents[i], documents[j] = documents[j], documents[i] })
	if len(documents) > 0 {
		m := &modeller{w: w, c: c, documents: documents, total: total, counts: w.activity.Counts[c.Namespace()]}
		m.model()
	}
	return w.pace.end(ctx)
}

func (w *mongoWalk) conclude() {
	up := w.activity.Uptime.Seconds()
	if up > 0 && w.counted {
		w.info.Rates = Rates{Reads: w.exchanges / up}
		w.note("operations are counted since the server was started, %s ago", w.activity.Uptime.Round(time.Second))
	}
	if !w.counted {
		w.note("operations were not counted, or the user may not read the counts: each document counts as read once and inserted once, in messages of any length; set the rate of both with --reads")
	}
	if len(w.activity.Denied) > 0 {
		w.note("the user may not run %s: for better figures grant the role clusterMonitor", strings.Join(w.activity.Denied, " and "))
	}
	if len(w.profile) == 0 {
		w.note("messages are modelled from sampled documents: reads by identifier or of whole batches, without projections; with the profiler on (level 2) they are modelled from real operations")
	} else {
		w.note("requests, and the documents of a reply, are those that the profiler recorded last")
	}
	w.note("a value is a request with its reply, as they cross the link; handshakes, TLS and TCP are not included")
	w.note("mongod compresses replies at its own levels; CPU is that of both ends together")
	w.note("pair means two gateways, one of them beside the server, and a link between them, whose history has other messages of the same kind, up to 512 KiB; a real one has up to 8 MiB of all messages, and documents that are sent again take fewer bytes")
}
