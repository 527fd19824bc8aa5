package reference

import (
	"regexp"
	"strings"
)

// Row is a row of a table. Its texts are Markdown.
type Row struct {
	Keys    string // one key or several: "`cert`, `key`"; "" for a flag without a key
	Default string
	Also    string // variable and flag, for keys of the process only
	Meaning string
}

// table is a table between two markers of the page.
type table struct {
	name  string // name in its marker
	below string // path of the object whose keys these are, "" for the file
	of    string // protocol, where several tables have the same keys
	rows  []Row
	also  bool // has the column for variables and flags
}

func tables() []table {
	return []table{
		{name: "process", rows: process, also: true},
		{name: "dictionaries", below: "dictionaries", rows: dictionaries},
		{name: "training", below: "training", rows: training},
		{name: "gateways", below: "gateways", rows: gateways},
		{name: "pack", below: "gateways.pack", rows: pack},
		{name: "rules", below: "gateways.rules", of: "Redis", rows: rules},
		{name: "grpc rules", below: "gateways.rules", of: "gRPC", rows: grpcRules},
		{name: "http rules", below: "gateways.rules", of: "HTTP", rows: httpRules},
		{name: "mongo rules", below: "gateways.rules", of: "MongoDB", rows: mongoRules},
		{name: "tarantool rules", below: "gateways.rules", of: "Tarantool", rows: tarantoolRules},
	}
}

var quoted = regexp.MustCompile("`([^`]+)`")

// keys returns the paths of a row's keys relative to its table's object: "`tls.cert`, `.key`" gives tls.cert
// and tls.key.
func (r Row) keys() []string {
	var list []string
	parent := ""
	for _, m := range quoted.FindAllStringSubmatch(r.Keys, -1) {
		key := m[1]
		if rest, ok := strings.CutPrefix(key, "."); ok {
			key = parent + rest
		} else if i := strings.LastIndex(key, "."); i >= 0 {
			parent = key[:i+1]
		}
		list = append(list, key)
	}
	return list
}

// described returns the rows by path, such as "gateways.tls.cert".
func described() map[string][]protocolRow {
	all := map[string][]protocolRow{}
	for _, t := range tables() {
		for _, r := range t.rows {
			for _, key := range r.keys() {
				path := key
				if t.below != "" {
					path = t.below + "." + key
				}
				all[path] = append(all[path], protocolRow{t.of, r})
			}
		}
	}
	return all
}

// protocolRow is a row with the protocol that it applies to.
type protocolRow struct {
	of  string
	row Row
}
