package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/store"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/test/testenv"
)

func connectTo(t *testing.T, addr string) *goredis.Client {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: addr, DisableIdentity: true, ReadTimeout: patience})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// publishTo stores dictionaries like a gateway would.
func publishTo(t *testing.T, addr string, dicts ...*codec.Dict) {
	t.Helper()
	d := storeredis.NewDicts(storeredis.DictsOptions{Client: connectTo(t, addr), Log: slog.New(slog.DiscardHandler)})
	if err := d.Publish(t.Context(), dicts...); err != nil {
		t.Fatal(err)
	}
}

func newTestDict(t *testing.T, about string) *codec.Dict {
	t.Helper()
	d, err := codec.NewDict([]byte(strings.Repeat(fmt.Sprintf(`{"order":%q,"state":"open"} `, about), 20)))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func sealedWith(t *testing.T, d *codec.Dict, value string) string {
	t.Helper()
	var local dict.Set
	if err := local.Add(d); err != nil {
		t.Fatal(err)
	}
	s := envelope.NewSealer(envelope.SealerOptions{Dicts: store.MemoryDicts(&local)})
	stored := s.Seal(nil, []byte(value), codec.Setting{Codec: codec.Zstd, Dict: d.Number()}, nil)
	if h, err := envelope.ParseHeader(stored); err != nil || h.Dict != d.Number() {
		t.Fatalf("%+v, %v", h, err)
	}
	return string(stored)
}

// storeAddrs returns the addresses of a server with functions and of one without.
func storeAddrs(t *testing.T) map[string]string {
	return map[string]string{"function": testenv.Redis(t).Addr, "key": miniredis.RunT(t).Addr()}
}

func TestInspectFindsDictionariesInTheStore(t *testing.T) {
	const value = `{"order":"menus","state":"open"} {"order":"menus","state":"open"}`
	for place, addr := range storeAddrs(t) {
		t.Run(place, func(t *testing.T) {
			d, lost := newTestDict(t, "menus"), newTestDict(t, "lost")
			publishTo(t, addr, d)
			c := connectTo(t, addr)
			if _, err := c.Pipelined(t.Context(), func(p goredis.Pipeliner) error {
				p.Do(t.Context(), "SELECT", 3) // dictionaries are found from every database
				p.Set(t.Context(), "kept", sealedWith(t, d, value), 0)
				p.Set(t.Context(), "lost", sealedWith(t, lost, strings.ReplaceAll(value, "menus", "lost")), 0)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			url := "redis://" + addr + "/3"
			var out bytes.Buffer
			if err := runInspect(context.Background(), inspectOptions{target: url, key: "kept", raw: true, out: &out}); err != nil || out.String() != value {
				t.Errorf("%v: %q", err, &out)
			}
			err := runInspect(context.Background(), inspectOptions{target: url, key: "lost", out: &out})
			if exitCode(err) != exitDictMissing || !strings.Contains(out.String(), fmt.Sprintf("%08x", lost.Number())) {
				t.Errorf("a dictionary that is nowhere: %d, %v\n%s", exitCode(err), err, &out)
			}
		})
	}
}

func TestDictListOfAStore(t *testing.T) {
	for place, addr := range storeAddrs(t) {
		t.Run(place, func(t *testing.T) {
			d := newTestDict(t, "menus")
			publishTo(t, addr, d)
			breakDict(t, addr, place)
			var out bytes.Buffer
			if err := runDictList(context.Background(), dictListOptions{from: []string{"redis://u:secret@" + addr}, asJSON: true, out: &out}); err == nil {
				t.Error("a password is accepted although none is set")
			}
			if err := runDictList(context.Background(), dictListOptions{from: []string{"redis://" + addr + "/3"}, asJSON: true, out: &out}); err != nil {
				t.Fatal(err)
			}
			var infos []dictInfo
			if err := json.Unmarshal(out.Bytes(), &infos); err != nil || len(infos) != 2 {
				t.Fatalf("%v: %s", err, &out)
			}
			bad, good := infos[0], infos[1]
			if good.Number == "00000bad" {
				bad, good = good, bad
			}
			want := dictInfo{
				Number: fmt.Sprintf("%08x", d.Number()), SHA256: fmt.Sprintf("%x", d.Hash()), Bytes: len(d.Content()),
				Place: place, State: "live", Source: "redis://" + addr + "/3",
			}
			if good != want || bad.Problem == "" || bad.Number != "00000bad" || bad.SHA256 != "" {
				t.Errorf("%+v\nand %+v\nwant %+v", good, bad, want)
			}
			out.Reset()
			if err := runDictList(context.Background(), dictListOptions{from: []string{"redis://" + addr}, out: &out}); err != nil || !strings.Contains(out.String(), bad.Problem) {
				t.Errorf("%v\n%s", err, &out)
			}
		})
	}
}

// breakDict replaces a stored dictionary with other content.
func breakDict(t *testing.T, addr, place string) {
	t.Helper()
	var err error
	if place == "key" {
		err = connectTo(t, addr).Set(t.Context(), "cinch:dict:00000bad", "some other content", 0).Err()
	} else {
		code := "#!lua name=cinch_dict_00000bad\nredis.register_function('cinch_dict_00000bad', function() return 1 end)"
		err = connectTo(t, addr).FunctionLoad(t.Context(), code).Err()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A refusal by the store does not count as the store being down.
func TestInspectWithoutRightsOnDictionaries(t *testing.T) {
	server := testenv.Redis(t)
	d := newTestDict(t, "menus")
	publishTo(t, server.Addr, d)
	c := connectTo(t, server.Addr)
	c.Set(t.Context(), "k", sealedWith(t, d, strings.Repeat(`{"order":"menus"}`, 10)), 0)
	if err := c.Do(t.Context(), "ACL", "SETUSER", "reader", "on", ">pw", "~*", "+get", "+ping").Err(); err != nil {
		t.Fatal(err)
	}
	url := "redis://reader:pw@" + server.Addr
	err := runInspect(context.Background(), inspectOptions{target: url, key: "k", out: &bytes.Buffer{}})
	if exitCode(err) != exitFailed || !strings.Contains(fmt.Sprint(err), "NOPERM") {
		t.Errorf("%d, %v", exitCode(err), err)
	}
	if _, err := (dictListOptions{}).list(context.Background(), url); exitCode(err) != exitFailed {
		t.Errorf("list: %d, %v", exitCode(err), err)
	}
}
