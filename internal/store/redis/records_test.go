package redis

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/testenv"
)

func recordServers(t *testing.T) map[string]*testenv.RedisServer {
	return map[string]*testenv.RedisServer{"functions": testenv.Redis(t), "keys": withoutFunctions(t)}
}

func TestRecords(t *testing.T) {
	const awkward = "{\"by\":\"höst/'x'\\\\n\",\n\"]]\":1}\x00 end"
	for kind, server := range recordServers(t) {
		t.Run(kind, func(t *testing.T) {
			d, client := gatewayOn(t, server.Addr, &testenv.Log{})
			wantRecord(t, d, "", 0)
			if next, err := d.ReplaceRecord(t.Context(), "rule", 7, "x"); next != 0 || err != nil {
				t.Errorf("a version that never was: %d, %v", next, err)
			}
			version := uint64(0)
			for i, text := range []string{"first", awkward, strings.Repeat("long ", 2000)} {
				next, err := d.ReplaceRecord(t.Context(), "rule", version, text)
				if err != nil || next == 0 {
					t.Fatalf("replace %d: %d, %v", i, next, err)
				}
				if again, err := d.ReplaceRecord(t.Context(), "rule", version, "late"); again != 0 || err != nil {
					t.Errorf("late: %d, %v", again, err)
				}
				version = next
				wantRecord(t, d, text, version)
			}
			_, err := d.ReplaceRecord(t.Context(), "rule_2", 0, "other")
			must(t, err)
			all, err := d.Records(t.Context())
			if err != nil || len(all) != 2 || all["rule_2"] != "other" || !strings.HasPrefix(all["rule"], "long") {
				t.Errorf("%v: %q", err, all)
			}
			if gone, err := d.DeleteRecord(t.Context(), "rule", version-1); gone || err != nil {
				t.Errorf("another version was deleted: %v, %v", gone, err)
			}
			wantRecord(t, d, strings.Repeat("long ", 2000), version)
			if n := len(client.FunctionList(t.Context(), goredis.FunctionListQuery{}).Val()); kind == "functions" && n != 2 {
				t.Errorf("%d libraries for two records", n)
			}
			if _, err := d.ReplaceRecord(t.Context(), "a'b", 0, ""); err == nil {
				t.Error("a name that Lua would not take")
			}
			if _, err := d.ReplaceRecord(t.Context(), "rule", version, "next"); err != nil {
				t.Error(err)
			}
			version++
			if text, _, err := d.Record(t.Context(), "rule_2"); err != nil || text != "other" {
				t.Errorf("a record whose name begins alike: %v, %q", err, text)
			}
			infos, err := d.List(t.Context())
			if err != nil || len(infos) != 0 {
				t.Errorf("records are no dictionaries: %v, %v", infos, err)
			}
			if gone, err := d.DeleteRecord(t.Context(), "rule", version); !gone || err != nil {
				t.Errorf("delete: %v, %v", gone, err)
			}
			wantRecord(t, d, "", 0)
			if gone, err := d.DeleteRecord(t.Context(), "rule", version); gone || err != nil {
				t.Errorf("delete again: %v, %v", gone, err)
			}
			if all, err := d.Records(t.Context()); err != nil || len(all) != 1 {
				t.Errorf("%v: %q", err, all)
			}
		})
	}
}

func wantRecord(t *testing.T, d *Dicts, text string, version uint64) {
	t.Helper()
	got, v, err := d.Record(t.Context(), "rule")
	if err != nil || got != text || v != version {
		t.Errorf("%v: version %d %q, want %d %q", err, v, got, version, text)
	}
}

// Of several writers that replace the same version only one succeeds, and its text stays.
func TestRecordsAreReplacedOnce(t *testing.T) {
	for kind, server := range recordServers(t) {
		t.Run(kind, func(t *testing.T) {
			var gateways []*Dicts
			for range 4 {
				d, _ := gatewayOn(t, server.Addr, &testenv.Log{})
				gateways = append(gateways, d)
			}
			version := uint64(0)
			for round := range 20 {
				next := make([]uint64, len(gateways))
				var all sync.WaitGroup
				for i, d := range gateways {
					all.Go(func() {
						var err error
						if next[i], err = d.ReplaceRecord(t.Context(), "rule", version, fmt.Sprint(round, " ", i)); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				winners := 0
				for i, n := range next {
					if n > 0 {
						winners, version = winners+1, n
						wantRecord(t, gateways[0], fmt.Sprint(round, " ", i), n)
					}
				}
				if winners != 1 {
					t.Fatalf("round %d: %d succeeded", round, winners)
				}
			}
		})
	}
}

// Gateways of a cluster keep records in the primary with slot 0, whatever its address, and look nowhere else.
func TestRecordsOfACluster(t *testing.T) {
	nodes := []*testenv.RedisServer{testenv.ClusterNode(t), testenv.ClusterNode(t), testenv.ClusterNode(t)}
	slices.SortFunc(nodes, func(a, b *testenv.RedisServer) int { return strings.Compare(b.Addr, a.Addr) })
	testenv.MakeCluster(t, nodes, 3)
	s, err := Open(t.Context(), OpenOptions{Client: goredis.Options{Addr: nodes[1].Addr}})
	must(t, err)
	t.Cleanup(s.Close)
	gateway, _ := gatewayOn(t, nodes[0].Addr, &testenv.Log{})
	stray, _ := gatewayOn(t, nodes[2].Addr, &testenv.Log{})

	_, err = s.Dicts().ReplaceRecord(t.Context(), "rule", 0, "trained")
	must(t, err)
	if text, _, err := gateway.Record(t.Context(), "rule"); err != nil || text != "trained" {
		t.Errorf("the gateway sees %q, %v", text, err)
	}
	for _, r := range []struct {
		at   *Dicts
		text string
	}{{stray, "stray"}, {gateway, "kept"}} {
		_, err := r.at.ReplaceRecord(t.Context(), "other", 0, r.text)
		must(t, err)
	}
	if text, _, err := s.Dicts().Record(t.Context(), "other"); err != nil || text != "kept" {
		t.Errorf("%q, %v", text, err)
	}
}
