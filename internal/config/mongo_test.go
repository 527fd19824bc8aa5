package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/policy"
)

func TestMongoGateways(t *testing.T) {
	list, err := MongoGateways("mongo", "127.0.0.1:27018", "mongodb://a,b:1,c/?tls=true", []Rule{DefaultMongoRule()})
	if err != nil || len(list) != 3 {
		t.Fatal(list, err)
	}
	for i, want := range []struct{ name, listen, address string }{
		{"mongo", "127.0.0.1:27018", "a:27017"}, {"mongo-2", "127.0.0.1:27019", "b:1"}, {"mongo-3", "127.0.0.1:27020", "c:27017"},
	} {
		up, err := list[i].parseUpstream()
		if err != nil || list[i].Name != want.name || list[i].Listen != want.listen || up.Address != want.address || up.TLS == nil {
			t.Errorf("%+v, %+v, %v", list[i], up, err)
		}
	}
	for uri, want := range map[string]string{
		"mongodb+srv://a":               "list the members",
		"redis://a":                     "not mongodb",
		"mongodb://":                    "not mongodb",
		"mongodb://a,,b":                "not mongodb",
		"mongodb://u:secret@a":          "log in with their own",
		"mongodb://a/shop":              "database",
		"mongodb://a/?w=1":              "unknown option",
		"mongodb://a/?tls=yes":          "neither",
		"mongodb://a/?loadBalanced=yes": "neither",
		"mongodb://a,b":                 "listen must be host:port",
	} {
		if _, err := parseMongoURI(uri, false); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", uri, err)
		}
	}
	for uri, want := range map[string]string{
		"mongodb://a/?peers=true":                     "mongodb://a/",
		"mongodb://a/?tls=true&peers=true":            "mongodb://a/?tls=true",
		"mongodb://a/?peers=true&tls=true":            "mongodb://a/?tls=true",
		"mongodb://a/?tls=true":                       "",
		"mongodb://a,b/?loadBalanced=true&peers=true": "mongodb://a,b/?loadBalanced=true",
		"mongodb://a,b/?loadbalanced=true&peers=true": "mongodb://a,b/?loadbalanced=true",
	} {
		list, err := MongoGateways("mongo", "127.0.0.1:27018", uri, []Rule{DefaultMongoRule()})
		if err != nil || len(list) != 1 || list[0].Peers != (want != "") || want != "" && list[0].Upstream != want {
			t.Errorf("%s: %+v, %v", uri, list, err)
		}
	}
	for uri, want := range map[string]int{
		"mongodb://a/?loadBalanced=true":     1,
		"mongodb://a/?LOADBALANCED=true":     1,
		"mongodb://a,b/?loadbalanced=true":   2,
		"mongodb://a/?loadBalanced=false":    0,
		"mongodb://a/?directConnection=true": 0,
	} {
		g := MongoGateway("mongo", "127.0.0.1:27018", uri, nil)
		if up, err := g.parseUpstream(); err != nil || len(g.MongoMembers(up)) != want {
			t.Errorf("%s: %d members, %v", uri, len(g.MongoMembers(up)), err)
		}
	}
	if _, err := MongoGateways("mongo", "127.0.0.1:27018", "mongodb://a/?peers=false", nil); err != nil {
		t.Error(err)
	} else if _, err := parseMongoURI("mongodb://a/?peers=false", false); err == nil {
		t.Error("peers=false is accepted")
	}
}

// Links to an upstream that accepts them are the default. history selects the clients that share one, or disables
// links.
func TestMongoLink(t *testing.T) {
	file := func(settings string) (*Config, error) {
		return Parse("f", []byte("gateways: [{name: a, protocol: mongo, listen: 127.0.0.1:1, upstream: mongodb://db, rules: [{setting: zstd-3}]"+settings+"}]"), nil)
	}
	for settings, wants := range map[string]bool{
		"":                                     true,
		", peers: true":                        true,
		", link: {window: 1MiB}":               true,
		", link: {history: client}":            true,
		", link: {history: shared}":            true,
		", link: {history: none}":              false,
		", peers: true, link: {history: none}": true, // other gateways may open links
	} {
		c, err := file(settings)
		if err != nil {
			t.Errorf("%s: %v", settings, err)
		} else if got := c.Gateways[0].WantsLink(); got != wants {
			t.Errorf("%s: links %v", settings, got)
		}
	}
	for settings, want := range map[string]string{
		", link: {history: all}":     "none",
		", link: {window: 1000000}":  "link.window",
		", link: {memory: 1KiB}":     "link.memory",
		", link: {setting: zstd-19}": "link.setting",
	} {
		if _, err := file(settings); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", settings, err)
		}
	}
	for uri, want := range map[string]string{
		"mongodb://a/":                               "",
		"mongodb://a/?history=none":                  NoHistory,
		"mongodb://a/?history=shared&tls=true":       SharedHistory,
		"mongodb://a,b/?replicaSet=r&history=client": ClientHistory,
	} {
		list, err := MongoGateways("db", "127.0.0.1:27018", uri, []Rule{DefaultMongoRule()})
		if err != nil {
			t.Errorf("%s: %v", uri, err)
		}
		for _, g := range list {
			if got := g.Link; (got == nil) != (want == "") || got != nil && got.History != want || strings.Contains(g.Upstream, "history") {
				t.Errorf("%s: %+v to %s", uri, got, g.Upstream)
			}
		}
		if _, err := Load("", list); err != nil {
			t.Errorf("%s: %v", uri, err)
		}
	}
	list, err := MongoGateways("db", "127.0.0.1:27018", "mongodb://a/?history=all", []Rule{DefaultMongoRule()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Load("", list); err == nil {
		t.Error("history=all is accepted")
	}
}

// A URI with several members makes a gateway for each in a file too, with all of the file's settings.
func TestMongoMembersInFile(t *testing.T) {
	c := parse(t, `
gateways:
  - {name: first, protocol: redis, listen: ":1", upstream: "redis://h", rules: [{setting: lz4}]}
  - name: db
    protocol: mongo
    listen: 127.0.0.1:27018
    upstream: mongodb://a,b:1,c/?tls=true
    advertise: gateway.example:30000
    max_connections: 7
    upstream_tls: {server_name: db}
    rules: [{setting: zstd-3}]
  - {name: last, protocol: redis, listen: ":2", upstream: "redis://h", rules: [{setting: lz4}]}
`)
	var names []string
	for i := range c.Gateways {
		names = append(names, c.Gateways[i].Name)
	}
	if !slices.Equal(names, []string{"first", "db", "db-2", "db-3", "last"}) {
		t.Fatal(names)
	}
	for i, want := range []struct{ listen, advertise, address string }{
		{"127.0.0.1:27018", "gateway.example:30000", "a:27017"},
		{"127.0.0.1:27019", "gateway.example:30001", "b:1"},
		{"127.0.0.1:27020", "gateway.example:30002", "c:27017"},
	} {
		g := &c.Gateways[1+i]
		up, err := g.parseUpstream()
		if err != nil || g.Listen != want.listen || g.Advertise != want.advertise || up.Address != want.address ||
			up.TLS == nil || g.MaxConnections != 7 || len(g.Rules) != 1 {
			t.Errorf("%+v, %v", g, err)
		}
	}
	for text, want := range map[string]string{
		// Problems have the lines of the file, whatever gateways precede them.
		"gateways:\n  - {name: a, protocol: mongo, listen: 'h:1', upstream: 'mongodb://a,b'}\n  - {name: a, protocol: redis, listen: ':3', upstream: 'redis://h'}": `f:3: gateways[1].name: duplicate "a"`,
		"gateways:\n  - {name: a, protocol: mongo, listen: 'h:65535', upstream: 'mongodb://a,b'}":                                                                  `f:2: gateways[0].listen: port "65536" is not between`,
		"gateways:\n  - {name: a, protocol: mongo, listen: 'unix:/x', upstream: 'mongodb://a,b'}":                                                                  "listen must be host:port when the URI names several members",
		"gateways:\n  - {name: a, protocol: mongo, listen: 'h:1', upstream: 'mongodb://a,b'}\n  - {name: b, protocol: redis, listen: ':2', upstream: 'redis://h'}": "f:3: gateways[1].listen: :2 is used by gateways[0].listen, h:2",
	} {
		if _, err := Parse("f", []byte(text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nwant %s", text, err, want)
		}
	}
}

func TestMongoRules(t *testing.T) {
	const head = "gateways:\n  - name: db\n    protocol: mongo\n    listen: :27018\n    upstream: mongodb://db\n    advertise: db.example:27018\n    rules:\n"
	c, err := Parse("f", []byte(head+`      - {name: logs, namespace: "app.log*", setting: raw}
      - {name: reads, namespace: "app.*", command: [find, getMore], direction: reply, min_size: 1KiB, setting: snappy}
      - {name: rest, setting: auto}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Gateways[0].Messages()
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []struct {
		space, command string
		d              policy.Direction
		size           int
		want           string
	}{
		{"app.logs", "find", policy.Reply, 5000, ""},
		{"app.users", "find", policy.Reply, 5000, "reads"},
		{"app.users", "find", policy.Reply, 500, "rest"},
		{"app.users", "insert", policy.Request, 500, "rest"},
	} {
		got := ""
		if r := p.Lookup(policy.MessageAddress{Space: []byte(q.space), Command: []byte(q.command), Direction: q.d, Size: q.size}); r != nil {
			got = r.Name
		}
		if got != q.want {
			t.Errorf("%+v: %q", q, got)
		}
	}
	if r := p.Rules()[2]; !r.Auto {
		t.Error("auto is lost")
	}
	text, err := c.YAML()
	if err != nil || !strings.Contains(string(text), "setting: auto") {
		t.Errorf("%v\n%s", err, text)
	}
	for rule, want := range map[string]string{
		"{setting: lz4}":                      "does not support lz4",
		"{setting: zstd-3, key: 'a*'}":        "for stores",
		"{setting: zstd-3, type: hash}":       "type: is only for stores",
		"{setting: zstd-3, dictionary: auto}": "dictionary: is only for stores",
		"{setting: auto, dictionary: auto}":   "dictionary: is only for stores",
		"{setting: snappy, dictionary: auto}": "dictionary: is only for stores",
		"{setting: zstd-3, no_sample: [x]}":   "for stores",
		"{setting: zstd-3, service: x}":       "is only for protocol: grpc",
	} {
		if _, err := Parse("f", []byte(head+"      - "+rule+"\n"), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", rule, err)
		}
	}
	redis := strings.NewReplacer("mongo\n", "redis\n", "mongodb://", "redis://", "    advertise: db.example:27018\n", "").Replace(head)
	for rule, want := range map[string]string{
		"{setting: auto}":                    "is only for protocol: mongo",
		"{setting: lz4, namespace: a}":       "is only for protocol: mongo",
		"{setting: lz4, direction: request}": "is only for protocol: grpc",
	} {
		if _, err := Parse("f", []byte(redis+"      - "+rule+"\n"), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", rule, err)
		}
	}
}

// The defaults of a rule are the same in a file, with --rule and without rules.
func TestMongoRuleDefaults(t *testing.T) {
	const file = "gateways: [{name: a, protocol: mongo, listen: 127.0.0.1:1, upstream: mongodb://db, rules: [{setting: zstd-3}, {setting: zstd-3, min_gain: 10%, min_size: 64}]}," +
		" {name: b, protocol: redis, listen: 127.0.0.1:2, upstream: redis://db, rules: [{setting: zstd-3}]}]"
	flag, err := ParseRule("setting=zstd-3")
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse("cinch.yaml", []byte(file), []Gateway{MongoGateway("c", "127.0.0.1:3", "mongodb://db", []Rule{flag}), MongoGateway("d", "127.0.0.1:4", "mongodb://db", []Rule{DefaultMongoRule()})})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []Percent{5, 10, 5, 5} {
		r := c.Gateways[i].Rules[0]
		if r.MinGain != want {
			t.Errorf("gateway %s: min_gain %v, want %v", c.Gateways[i].Name, r.MinGain, want)
		}
	}
	if r := c.Gateways[0].Rules; *r[0].MinSize != 0 || r[1].MinGain != 10 || *r[1].MinSize != 64 || *c.Gateways[1].Rules[0].MinSize != 64 {
		t.Errorf("%+v", r)
	}
}

// standby= adds a listener after those of the members.
func TestMongoStandby(t *testing.T) {
	list, err := MongoGateways("db", "10.0.0.5:27018", "mongodb://a,b,c/?tls=true&standby=10.0.0.6:27021,10.0.0.7:27021", []Rule{DefaultMongoRule()})
	if err != nil || len(list) != 4 {
		t.Fatal(list, err)
	}
	g := list[3]
	if g.Listen != "10.0.0.5:27021" || len(g.Standby) != 2 || g.Upstream != "mongodb://a,b,c/?tls=true" || len(list[0].Standby) != 0 {
		t.Errorf("%+v", g)
	}
	c, err := Load("", list)
	if err != nil {
		t.Fatal(err)
	}
	up, err := c.UpstreamOf(&c.Gateways[3], nil)
	if members := c.Gateways[3].MongoMembers(up); err != nil || len(members) != 3 || members[2].TLS == nil {
		t.Error(members, err)
	}
	for listen, uri := range map[string]string{
		"10.0.0.5:0":     "mongodb://a,b/?standby=10.0.0.6:1",
		"10.0.0.5:27018": "mongodb://a,b/?loadBalanced=true&standby=10.0.0.6:1",
	} {
		if _, err := MongoGateways("db", listen, uri, nil); err == nil {
			t.Errorf("%s on %s passes", uri, listen)
		}
	}
	g.Standby = []string{"nowhere"}
	if _, err := Load("", []Gateway{g}); err == nil {
		t.Error("an address without a port passes")
	}
}
