package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/observe/admin"
	"github.com/cinch-layer/cinch/test/testenv"
)

// dictConfig is a configuration file under construction, with one gateway per store.
type dictConfig struct {
	file    string
	sockets []string
	stores  []*miniredis.Miniredis
}

func newDictConfig(t *testing.T, gateways int) *dictConfig {
	c := &dictConfig{file: filepath.Join(t.TempDir(), "cinch.yaml")}
	for range gateways {
		c.sockets, c.stores = append(c.sockets, socket(t)), append(c.stores, miniredis.RunT(t))
	}
	return c
}

// write writes the file, with one rule per gateway.
func (c *dictConfig) write(t *testing.T, head string, rules ...string) {
	t.Helper()
	text := head + "\ngateways:\n"
	for i, rule := range rules {
		text += fmt.Sprintf("  - {name: g%d, protocol: redis, listen: \"unix:%s\", upstream: \"redis://%s\", rules: [%s]}\n",
			i, c.sockets[i], c.stores[i].Addr(), rule)
	}
	if err := os.WriteFile(c.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// sealsWith waits until the gateway's stored values name the dictionary.
func (c *dictConfig) sealsWith(t *testing.T, gateway int, d *codec.Dict, about string) {
	t.Helper()
	client := dial(t, c.sockets[gateway])
	value := strings.Repeat(fmt.Sprintf(`{"order":%q,"state":"open"} `, about), 5)
	testenv.Eventually(t, fmt.Sprintf("a value is compressed with dictionary %08x", d.Number()), func() bool {
		client.do("SET", "k", value)
		stored, err := c.stores[gateway].Get("k")
		if err != nil {
			t.Fatal(err)
		}
		h, err := envelope.ParseHeader([]byte(stored))
		return err == nil && h.Dict == d.Number()
	})
	if got := client.do("GET", "k"); got != value {
		t.Errorf("GET: %q", got)
	}
}

// A rule may name a dictionary by its number alone: the gateway fetches it.
func TestServeFetchesDictionaries(t *testing.T) {
	c := newDictConfig(t, 1)
	first, second, missing := newTestDict(t, "first"), newTestDict(t, "second"), newTestDict(t, "missing")
	publishTo(t, c.stores[0].Addr(), first, second)
	rule := func(d *codec.Dict) string { return fmt.Sprintf("{setting: zstd-3@%08x}", d.Number()) }

	c.write(t, "admin: {listen: off}", rule(first))
	s := startServe(t, serveOptions{configFile: c.file})
	s.logged("gateway listens")
	c.sealsWith(t, 0, first, "first")

	c.write(t, "admin: {listen: off}", rule(missing))
	s.reload(fmt.Sprintf("values are compressed without it\" gateway=g0 dictionary=%08x", missing.Number()))
	client := dial(t, c.sockets[0])
	value := strings.Repeat("sealed without ", 100)
	if got := client.do("SET", "k", value) + client.do("GET", "k"); got != "+OK"+value {
		t.Errorf("%q", got)
	}

	c.write(t, "admin: {listen: off}", rule(second))
	s.signals <- syscall.SIGHUP
	c.sealsWith(t, 0, second, "second")
	s.stop(os.Interrupt)
}

// A dictionary holds pieces of the values of one store: clients of another gateway can't read them with an
// envelope that names it.
func TestServeKeepsDictionariesApart(t *testing.T) {
	c := newDictConfig(t, 2)
	d := newTestDict(t, "private")
	if err := dict.Save(filepath.Join(filepath.Dir(c.file), "private.dict"), d); err != nil {
		t.Fatal(err)
	}
	c.write(t, "admin: {listen: 127.0.0.1:0}\ndictionaries: [{name: private, file: private.dict}]", "{setting: lz4}", "{setting: zstd-3, dictionary: private}")
	s := startServe(t, serveOptions{configFile: c.file})
	s.logged("admin page listens")
	c.sealsWith(t, 1, d, "private")

	forged, err := c.stores[1].Get("k")
	if err == nil {
		err = c.stores[0].Set("k", forged)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := dial(t, c.sockets[0]).do("GET", "k"); !strings.HasPrefix(got, "-ERR") || !strings.Contains(got, "dictionary is missing") {
		t.Errorf("GET: %q", got)
	}
	checkAdmin(t, s, d)
	s.stop(os.Interrupt)
}

// checkAdmin checks that the admin page shows everything that the process knows.
func checkAdmin(t *testing.T, s *served, d *codec.Dict) {
	t.Helper()
	address := regexp.MustCompile(`admin page listens" address=(\S+)`).FindStringSubmatch(s.log.String())[1]
	var st admin.Status
	testenv.AdminJSON(t, address, "/api/status", &st)
	if st.Codec == nil || st.Codec.Limit < 1 || st.Budget.Request.SizeBytes != 128<<20 || st.Budget.Reply.SizeBytes != 128<<20 {
		t.Errorf("%+v", st)
	}
	want := admin.Dictionary{Name: "private", Number: fmt.Sprintf("%08x", d.Number()), Bytes: len(d.Content())}
	if len(st.Dictionaries) != 1 || st.Dictionaries[0] != want {
		t.Errorf("dictionaries %+v", st.Dictionaries)
	}
}
