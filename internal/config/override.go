package config

import (
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Override sets one key from the environment or a flag. Later ones win: flags follow the environment.
type Override struct {
	From  string // shown in errors: "CINCH_LOG_LEVEL" or "--admin"
	Key   string // path: "log.level"
	Value string
}

// environment lists the keys that variables may set. All other keys belong to gateways, and there may be several of
// those.
var environment = []struct{ name, key string }{
	{"CINCH_ADMIN_LISTEN", "admin.listen"},
	{"CINCH_ADMIN_TOKEN_FILE", "admin.token_file"},
	{"CINCH_ADMIN_READY", "admin.ready"},
	{"CINCH_LOG_LEVEL", "log.level"},
	{"CINCH_LOG_FORMAT", "log.format"},
	{"CINCH_MEMORY_BUDGET", "memory.budget"},
	{"CINCH_ZSTD", "zstd"},
	{"CINCH_DRAIN_DELAY", "drain_delay"},
	{"CINCH_DRAIN_TIMEOUT", "drain_timeout"},
	{"CINCH_DRAIN_GRACE", "drain_grace"},
}

// FromEnvironment returns the overrides of the environment. An empty variable counts as unset. Unknown ones
// that begin with CINCH_ are ignored: Kubernetes sets such variables for a service named cinch.
func FromEnvironment(getenv func(string) string) []Override {
	var list []Override
	for _, e := range environment {
		if value := getenv(e.name); value != "" {
			list = append(list, Override{From: e.name, Key: e.key, Value: value})
		}
	}
	return list
}

func (c *Config) override(list []Override) error {
	d := decoder{problems{c: c}}
	for _, o := range list {
		v := reflect.ValueOf(c).Elem()
		for name := range strings.SplitSeq(o.Key, ".") {
			v = v.Field(fieldNames(v.Type())[name])
		}
		before := len(d.list)
		d.value(&yaml.Node{Kind: yaml.ScalarNode, Value: o.Value}, v, o.Key)
		for i := range d.list[before:] {
			p := &d.list[before+i]
			p.File, p.Line, p.Path = "", 0, o.From
		}
		c.origins[o.Key] = o.From // errors then name it instead of a line of the file
	}
	return d.err()
}

// ParseRule reads a rule in the form of the --rule flag: a rule's keys as in the file,
// "key=menu:*,setting=zstd-3". Values with commas need a file.
func ParseRule(text string) (Rule, error) {
	c := Default()
	d := decoder{problems{c: c}}
	n := &yaml.Node{Kind: yaml.MappingNode}
	for part := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			d.at(0, "--rule", `write key=PATTERN,setting=SETTING`, "missing = in %q", part)
			continue
		}
		n.Content = append(n.Content, scalarNode(strings.TrimSpace(key)), scalarNode(strings.TrimSpace(value)))
	}
	var r Rule
	r.setDefaults()
	d.value(n, reflect.ValueOf(&r).Elem(), "--rule")
	if err := d.err(); err != nil {
		return r, err
	}
	return r, nil
}

func scalarNode(value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Value: value}
}
