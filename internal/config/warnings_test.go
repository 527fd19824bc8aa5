package config

import (
	"strings"
	"testing"
)

func TestWarnings(t *testing.T) {
	gateway := func(protocol, upstream, more string) string {
		return "gateways:\n  - {name: a, protocol: " + protocol + ", listen: ':1', upstream: '" + upstream + "'" + more + "}\n"
	}
	redis := func(rules string) string { return gateway("redis", "redis://h", ", rules: ["+rules+"]") }
	const shadowed = "rules[0] in front of it"
	for text, want := range map[string]string{
		gateway("redis", "redis://h", ""):                                                          "there are no rules, so the gateway compresses nothing",
		gateway("mongo", "mongodb://h", ""):                                                        "there are no rules, so the gateway compresses nothing",
		gateway("mongo", "mongodb://h", ", peers: true, peer_key_file: f"):                         "",
		gateway("grpc", "grpc://h:1", ", link: {history: client}"):                                 "",
		gateway("grpc", "grpc://h:1", ""):                                                          "there are no rules, so the gateway compresses nothing",
		gateway("grpc", "grpc://h:1", ", link: {history: none}"):                                   "there are no rules, so the gateway compresses nothing",
		gateway("http", "http://h", ", sample: true"):                                              "",
		gateway("redis", "redis://h", ", enabled: false"):                                          "",
		gateway("tunnel", "h:1", ""):                                                               "",
		gateway("postgres", "postgres://h", ""):                                                    "",
		gateway("redis", "redis+cluster://h", ", rules: [{db: 2, setting: lz4}]"):                  "database 0 only",
		gateway("redis", "redis://h", ", max_seal: 10, rules: [{setting: lz4}]"):                   "above max_seal",
		gateway("redis", "redis://h", ", exclude: ['b*'], rules: [{key: 'bull:*', setting: lz4}]"): "exclude covers all",

		redis("{setting: lz4}, {key: 'm*', setting: zstd-3}"):                                                  shadowed,
		redis("{setting: lz4}, {key: 'm*', setting: raw}"):                                                     shadowed,
		redis("{key: 'm*', setting: lz4}, {setting: zstd-3}"):                                                  "",
		redis("{key: 'm*', setting: lz4}, {key: 'menu:[0-9]', setting: zstd-3}"):                               shadowed,
		redis("{setting: lz4, db: 1}, {setting: zstd-3}"):                                                      "",
		redis("{setting: lz4}, {setting: zstd-3, db: 1}"):                                                      shadowed,
		redis("{setting: lz4, min_size: 1KiB}, {setting: zstd-3}"):                                             "",
		redis("{setting: lz4, min_size: 1KiB}, {setting: zstd-3, min_size: 2KiB}"):                             shadowed,
		redis("{setting: lz4, max_size: 1KiB}, {setting: zstd-3, min_size: 2KiB}"):                             "",
		redis("{setting: lz4, type: string}, {setting: zstd-3}"):                                               "",
		redis("{setting: lz4, type: string}, {setting: zstd-3, type: hash}, {setting: lz4, key: a}"):           "rules[1] in front of it",
		redis("{setting: lz4}, {setting: zstd-3, type: [string, stream]}"):                                     "",
		redis("{setting: lz4, type: hash, field: 'b*'}, {setting: zstd-3, field: body, type: [string, hash]}"): shadowed,
		redis("{setting: lz4, type: hash, field: 'b*'}, {setting: zstd-3, type: hash}"):                        "",

		gateway("grpc", "grpc://h:1", ", rules: [{setting: zstd, direction: request}, {setting: gzip}]"):                                           "",
		gateway("grpc", "grpc://h:1", ", rules: [{setting: zstd, service: 'a.*'}, {setting: gzip, service: a.B, method: [C]}]"):                    shadowed,
		gateway("grpc", "grpc://h:1", ", rules: [{setting: zstd, method: [A, B]}, {setting: gzip, method: [B, C]}]"):                               "",
		gateway("http", "http://h", ", rules: [{setting: auto}, {setting: gzip, direction: reply}]"):                                               "",
		gateway("http", "http://h", ", rules: [{setting: auto}, {setting: gzip, path: '/a*'}]"):                                                    shadowed,
		gateway("mongo", "mongodb://h", ", rules: [{setting: auto}, {setting: raw, namespace: a.b}]"):                                              shadowed,
		gateway("tarantool", "tarantool://h", ", rules: [{setting: lz4, space: a}, {setting: lz4, space: a, field: 2}]"):                           shadowed,
		gateway("tarantool", "tarantool://h", ", rules: [{setting: lz4}, {setting: lz4, function: f, argument: 2}]"):                               "",
		gateway("tarantool", "tarantool://h", ", rules: [{setting: lz4, function: 'f*', argument: 2}, {setting: lz4, function: fa, argument: 2}]"): shadowed,
	} {
		c, err := Parse("f", []byte(text), nil)
		if err != nil {
			t.Errorf("%s%v", text, err)
			continue
		}
		var said []string
		for _, w := range c.Warnings() {
			said = append(said, w.String())
		}
		all := strings.Join(said, "\n")
		if want == "" && all != "" || !strings.Contains(all, want) {
			t.Errorf("%ssaid %q, want %q", text, all, want)
		}
	}
}
