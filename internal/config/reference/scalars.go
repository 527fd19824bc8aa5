package reference

import (
	"reflect"

	"github.com/cinch-layer/cinch/internal/config"
)

// choices lists the possible values of keys that have only a few.
var choices = map[string][]string{
	"admin.ready":              {"all", "any"},
	"log.level":                {"debug", "info", "warn", "error"},
	"log.format":               {"text", "json"},
	"zstd":                     {"auto", "libzstd", "go"},
	"gateways.protocol":        config.Protocols(),
	"gateways.sql":             {"refuse", "projection", "pass"},
	"gateways.link.history":    {"client", "shared", "none"},
	"gateways.pack.mode":       {"seal", "estimate"},
	"gateways.rules.mode":      {config.RuleSeal, config.RuleObserve},
	"gateways.rules.type":      {"string", "hash", "stream"},
	"gateways.rules.direction": {"request", "reply"},
}

// numbered lists the texts that may be numbers: fields and arguments have positions, spaces have numbers.
var numbered = map[string]bool{
	"gateways.rules.field": true, "gateways.rules.argument": true, "gateways.rules.space": true,
}

const (
	size     = `^[0-9]+ *(B|kB|KB|MB|GB|TB|KiB|MiB|GiB|TiB)?$`
	share    = `^[0-9]+(\.[0-9]+)? *%$`
	cores    = `^[0-9]+(\.[0-9]+)? *%?$`
	duration = `^(0|([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+)$`
	conns    = `^(auto|off)$`
	setting  = `^(auto|[a-z][a-z0-9]*(-proto(-raw)?)?(-[0-9]+)?(@[0-9a-f]{8})?)$`
)

// scalar returns the schema of a single value.
func scalar(t reflect.Type, path string) (of object, known bool) {
	switch t {
	case reflect.TypeFor[config.Bytes]():
		return object{"type": []string{"integer", "string"}, "minimum": 0, "pattern": size}, true
	case reflect.TypeFor[config.Percent]():
		return object{"type": "string", "pattern": share}, true
	case reflect.TypeFor[config.Cores]():
		return object{"type": []string{"number", "string"}, "exclusiveMinimum": 0, "pattern": cores, "examples": []any{"20%", 0.2}}, true
	case reflect.TypeFor[config.Ratio]():
		return object{"type": []string{"number", "string"}, "minimum": 0, "maximum": 1, "pattern": share, "examples": []any{0.01, "1%"}}, true
	case reflect.TypeFor[config.Connections]():
		return object{"type": []string{"integer", "string"}, "minimum": 1, "maximum": 1024, "pattern": conns}, true
	case reflect.TypeFor[config.Duration]():
		return object{"type": []string{"integer", "string"}, "maximum": 0, "pattern": duration}, true
	case reflect.TypeFor[config.Setting]():
		return object{"type": "string", "pattern": setting, "examples": []string{"zstd-3", "lz4", "minlz", "raw"}}, true
	}
	switch t.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}, true
	case reflect.Int:
		return object{"type": "integer"}, true
	case reflect.String:
		return text(path), true
	}
	return nil, false
}

func text(path string) object {
	of := object{"type": "string"}
	if numbered[path] {
		of["type"] = []string{"string", "number"}
	}
	if words := choices[path]; words != nil {
		of["enum"] = words
	}
	return of
}
