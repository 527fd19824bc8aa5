package mongo

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Activity holds the server's counters since its start. Counters that the user may not read are zero, and Denied
// lists the commands that were refused.
type Activity struct {
	Uptime       time.Duration
	Returned     float64 // average number of documents in a reply to a query, over the whole server; 0: unknown
	Inserted     float64 // average number of documents in an insert; likewise
	Replies      float64 // number of replies that Returned averages
	Aggregations float64 // number of aggregations among Replies
	Inserts      float64 // number of inserts that Inserted averages
	Counts       map[string]Counts
	Denied       []string // commands that were refused
}

// Counts holds the numbers of operations on one collection.
type Counts struct {
	Queries, GetMores, Inserts, Updates, Deletes, Commands int64
	Reads, Writes                                          int64 // if the others are unknown
}

// Activity runs serverStatus and top, and $collStats for the collections if top is refused.
func (s *Server) Activity(ctx context.Context, collections []Collection) (Activity, error) {
	a := Activity{Counts: make(map[string]Counts)}
	if err := s.status(ctx, &a); err != nil && !a.recordDenied("serverStatus", err) {
		return a, err
	}
	err := s.top(ctx, &a)
	if err == nil {
		return a, nil
	}
	if !a.recordDenied("top", err) {
		return a, err
	}
	for _, c := range collections {
		n, err := s.latencies(ctx, c)
		if err != nil {
			if a.recordDenied("collStats", err) {
				return a, nil
			}
			return a, err
		}
		a.Counts[c.Namespace()] = n
	}
	return a, nil
}

// recordDenied records that the server refused a command: the user lacks a right, or the server does not have the
// command. It returns false for other errors.
func (a *Activity) recordDenied(what string, err error) bool {
	if errors.Is(err, ErrUnreachable) || errors.Is(err, context.Canceled) {
		return false
	}
	a.Denied = append(a.Denied, what)
	return true
}

func (s *Server) status(ctx context.Context, a *Activity) error {
	var status struct {
		Uptime  float64 `bson:"uptimeMillis"`
		Metrics struct {
			Document struct{ Returned, Inserted float64 } `bson:"document"`
			Commands map[string]bson.RawValue             `bson:"commands"`
		} `bson:"metrics"`
	}
	command := bson.D{{Key: "serverStatus", Value: 1}, {Key: "repl", Value: 0}, {Key: "wiredTiger", Value: 0}, {Key: "tcmalloc", Value: 0}}
	if err := s.client.Database("admin").RunCommand(ctx, command).Decode(&status); err != nil {
		return classify(err)
	}
	a.Uptime = time.Duration(status.Uptime) * time.Millisecond
	total := func(names ...string) (sum float64) {
		for _, n := range names {
			if doc, ok := status.Metrics.Commands[n].DocumentOK(); ok {
				if v, ok := doc.Lookup("total").AsInt64OK(); ok {
					sum += float64(v)
				}
			}
		}
		return sum
	}
	if n := total("find", "getMore", "aggregate"); n > 0 {
		a.Returned, a.Replies, a.Aggregations = status.Metrics.Document.Returned/n, n, total("aggregate")
	}
	if n := total("insert"); n > 0 {
		a.Inserted, a.Inserts = status.Metrics.Document.Inserted/n, n
	}
	return nil
}

func (s *Server) top(ctx context.Context, a *Activity) error {
	var top struct {
		Totals map[string]bson.RawValue `bson:"totals"`
	}
	if err := s.client.Database("admin").RunCommand(ctx, bson.D{{Key: "top", Value: 1}}).Decode(&top); err != nil {
		return classify(err)
	}
	type counter struct {
		Count int64 `bson:"count"`
	}
	for space, raw := range top.Totals {
		var t struct{ Queries, Getmore, Insert, Update, Remove, Commands counter }
		if raw.Type != bson.TypeEmbeddedDocument || bson.Unmarshal(raw.Value, &t) != nil {
			continue // "note" is a text
		}
		a.Counts[space] = Counts{
			Queries: t.Queries.Count, GetMores: t.Getmore.Count, Inserts: t.Insert.Count,
			Updates: t.Update.Count, Deletes: t.Remove.Count, Commands: t.Commands.Count,
		}
	}
	return nil
}

// latencies returns the operations of a collection by $collStats, which the role read allows.
func (s *Server) latencies(ctx context.Context, c Collection) (n Counts, err error) {
	stage := bson.D{{Key: "$collStats", Value: bson.D{{Key: "latencyStats", Value: bson.D{}}}}}
	cursor, err := s.client.Database(c.Database).Collection(c.Name).Aggregate(ctx, bson.A{stage})
	if err != nil {
		return n, classify(err)
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	for cursor.Next(ctx) { // one for each shard
		var stats struct {
			Latency struct{ Reads, Writes struct{ Ops int64 } } `bson:"latencyStats"`
		}
		if err := cursor.Decode(&stats); err != nil {
			return n, err
		}
		n.Reads, n.Writes = n.Reads+stats.Latency.Reads.Ops, n.Writes+stats.Latency.Writes.Ops
	}
	return n, classify(cursor.Err())
}
