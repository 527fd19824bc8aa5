package mongo

import (
	"math/rand/v2"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A run reports the size of both targets' databases, including the last writes, and the CPU time in between.
func TestUsage(t *testing.T) {
	b := newBench(t, "", nil)
	orders, r := b.client(t).Database("shop").Collection("orders"), rand.New(rand.NewPCG(1, 2))
	const documents, length = 30, 100 << 10
	for i := range documents {
		noise := make([]byte, length) // it does not compress
		for j := range noise {
			noise[j] = byte(r.Uint32())
		}
		if _, err := orders.InsertOne(t.Context(), bson.D{{Key: "_id", Value: i}, {Key: "noise", Value: noise}}); err != nil {
			t.Fatal(err)
		}
	}
	report := b.settle(t)
	if report.Begin == nil || report.End == nil {
		t.Fatalf("begin %v, end %v", report.Begin, report.End)
	}
	for i, u := range []struct{ before, after int64 }{
		{report.Begin.Control.Server, report.End.Control.Server}, {report.Begin.Test.Server, report.End.Test.Server},
	} {
		if u.before <= 0 || u.after < u.before+documents*length {
			t.Errorf("target %d: %d bytes, then %d", i, u.before, u.after)
		}
	}
	for _, u := range []float64{report.End.Control.CPU - report.Begin.Control.CPU, report.End.Test.CPU - report.Begin.Test.CPU} {
		if u <= 0 {
			t.Errorf("CPU of %g s", u)
		}
	}
	if e := report.End.Control; e.ServerBy != "listDatabases" || len(e.Missing) > 0 {
		t.Errorf("%+v", e)
	}
	var text strings.Builder
	if err := report.Text(&text); err != nil || !strings.Contains(text.String(), "listDatabases, at the end") || !strings.Contains(text.String(), "CPU of the server") {
		t.Errorf("%v: %s", err, &text)
	}
}
