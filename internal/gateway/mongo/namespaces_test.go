package mongo

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// A request names all namespaces whose documents it or its reply may have.
func TestNamespaces(t *testing.T) {
	stage := func(name string, value any) bson.D { return bson.D{{Key: name, Value: value}} }
	aggregate := func(stages ...any) bson.D {
		return command("aggregate", "a", bson.E{Key: "pipeline", Value: bson.A(stages)})
	}
	deep := bson.A{}
	for range maxPipelineDepth + 1 {
		deep = bson.A{stage("$unionWith", bson.D{{Key: "coll", Value: "b"}, {Key: "pipeline", Value: deep}})}
	}
	nested := bson.D{}
	for range 10_000 {
		nested = bson.D{{Key: "from", Value: nested}}
	}
	var many bson.A
	for i := range maxNamespaces + 1 {
		many = append(many, stage("$unionWith", fmt.Sprint("c", i)))
	}
	listed := bson.E{Key: "nsInfo", Value: bson.A{bson.D{{Key: "ns", Value: "x.a"}}, bson.D{{Key: "ns", Value: "y.b.c"}}}}
	for name, c := range map[string]struct {
		doc     bson.D
		want    string
		unknown bool
	}{
		"find":             {command("find", "a", bson.E{Key: "filter", Value: stage("$lookup", "b")}), "shop.a", false},
		"$match":           {aggregate(stage("$match", bson.D{{Key: "from", Value: "b"}})), "shop.a", false},
		"$lookup":          {aggregate(stage("$lookup", bson.D{{Key: "from", Value: "b"}, {Key: "as", Value: "c"}})), "shop.a shop.b", false},
		"another database": {aggregate(stage("$lookup", bson.D{{Key: "from", Value: bson.D{{Key: "db", Value: "x"}, {Key: "coll", Value: "b"}}}})), "shop.a x.b", false},
		"$graphLookup":     {aggregate(stage("$graphLookup", bson.D{{Key: "from", Value: "b"}})), "shop.a shop.b", false},
		"$unionWith":       {aggregate(stage("$unionWith", "b")), "shop.a shop.b", false},
		"inner pipelines": {aggregate(stage("$facet", bson.D{{Key: "f", Value: bson.A{stage("$lookup", bson.D{
			{Key: "pipeline", Value: bson.A{stage("$unionWith", bson.D{{Key: "coll", Value: "b"}})}}, {Key: "from", Value: "c"},
		})}}})), "shop.a shop.b shop.c", false},
		"$merge":              {aggregate(stage("$merge", bson.D{{Key: "into", Value: "b"}})), "shop.a shop.b", false},
		"$out":                {aggregate(stage("$out", bson.D{{Key: "coll", Value: "b"}, {Key: "db", Value: "x"}})), "shop.a x.b", false},
		"by UUID":             {command("find", bson.Binary{Subtype: 4, Data: make([]byte, 16)}), "", true},
		"an oplog":            {command("applyOps", bson.A{}), "", true},
		"operations":          {command("currentOp", 1), "", true},
		"$currentOp":          {bson.D{{Key: "aggregate", Value: 1}, {Key: "pipeline", Value: bson.A{stage("$currentOp", bson.D{})}}, {Key: "$db", Value: "admin"}}, "admin.$cmd", true},
		"$listSampledQueries": {bson.D{{Key: "aggregate", Value: 1}, {Key: "pipeline", Value: bson.A{stage("$listSampledQueries", bson.D{})}}, {Key: "$db", Value: "admin"}}, "admin.$cmd", true},
		"slow queries":        {command("getLog", "global"), "", true},
		"long names":          {aggregate(stage("$unionWith", strings.Repeat("b", 255))), "shop.a", true},
		"a long name":         {command("find", strings.Repeat("a", 255)), ".$cmd", true},
		"nested names":        {aggregate(stage("$lookup", bson.D{{Key: "from", Value: nested}})), "shop.a", false},
		"explain a bulkWrite": {command("explain", bson.D{{Key: "bulkWrite", Value: 1}, listed}), "x.a y.b.c", false},
		"explain":             {command("explain", bson.D{{Key: "aggregate", Value: "a"}, {Key: "pipeline", Value: bson.A{stage("$unionWith", "b")}}}), "shop.a shop.b", false},
		"bulkWrite":           {command("bulkWrite", 1, listed), "x.a y.b.c", false},
		"without a namespace": {command("bulkWrite", 1), "shop.$cmd", false},
		"too deep":            {aggregate(deep...), "", true},
		"too many":            {aggregate(many...), "", true},
	} {
		r := requestOf(t, opMsg(1, 0, c.doc))
		got := string(r.namespace)
		for _, other := range r.others {
			got += " " + string(other)
		}
		if got != c.want && c.want != "" || r.unknownNamespaces != c.unknown {
			t.Errorf("%s: %s, unknown: %v", name, got, r.unknownNamespaces)
		}
	}

	// A bulkWrite in the form that drivers send.
	doc, err := bson.Marshal(bson.D{{Key: "ns", Value: "x.a"}})
	if err != nil {
		t.Fatal(err)
	}
	b := opMsg(1, 0, command("bulkWrite", 1))
	section := append([]byte{1, 0, 0, 0, 0}, "nsInfo\x00"...)
	section = append(append(section, doc...), doc...)
	binary.LittleEndian.PutUint32(section[1:], uint32(len(section)-1))
	b = append(b, section...)
	wire.PutLength(b)
	if r := requestOf(t, b); string(r.namespace) != "x.a" || len(r.others) != 1 {
		t.Errorf("%s and %q", r.namespace, r.others)
	}

	// A command in the form that old drivers send.
	query := append(make([]byte, wire.HeaderLen+4), "shop.$cmd\x00\x00\x00\x00\x00\xff\xff\xff\xff"...)
	wire.AppendHeader(query[:0], wire.Header{OpCode: wire.OpQuery})
	find, err := bson.Marshal(bson.D{{Key: "find", Value: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	query = append(query, find...)
	wire.PutLength(query)
	if r := requestOf(t, query); string(r.namespace) != "shop.a" {
		t.Errorf("as a query: %s", r.namespace)
	}
}

// The further namespaces of a cursor are known on every connection. Once cursors were forgotten, unknown ones are
// covered by no rule for as long as servers keep the forgotten ones.
func TestOpenCursors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o openCursors
		reply := func(id int64) []byte {
			b, err := bson.Marshal(bson.D{{Key: "cursor", Value: bson.D{{Key: "firstBatch", Value: bson.A{}}, {Key: "id", Value: id}}}, {Key: "ok", Value: 1}})
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		want := func(id int64, names string, uncovered bool) {
			t.Helper()
			if others, got := o.find(id); string(bytes.Join(others, nil)) != names || got != uncovered {
				t.Errorf("%d: %q, %v", id, others, got)
			}
		}
		o.add(nil, nil)
		o.add(reply(0), nil)
		want(0, "", false)
		for id := int64(1); id <= 2*cursorsPerGeneration; id++ {
			o.add(reply(id), [][]byte{[]byte("shop.b")})
		}
		want(1, "shop.b", false)
		want(-1, "", false)
		o.add(reply(-2), nil)
		o.add(reply(-3), [][]byte{make([]byte, maxCursorNames+1)})
		want(1, "", true)
		want(-1, "", true)
		want(-2, "", true)
		want(-3, "", true)
		want(2*cursorsPerGeneration, "shop.b", false)
		time.Sleep(serverCursorTimeout)
		want(-1, "", false)
		want(-2, "", true)
	})
}
