package config

import (
	"reflect"
	"slices"
	"strings"
)

// liveKeys are the keys of a gateway that a reload changes.
var liveKeys = []string{"name", "enabled", "cpu_budget", "latency_budget", "pack", "exclude", "shards", "rules"}

// Frozen returns the keys that differ between two configurations and need a restart. A reload can change dictionaries,
// prices, the log level, and liveKeys of each gateway.
func Frozen(running, wanted *Config) []string {
	var keys []string
	compare := func(path string, a, b any) {
		if !reflect.DeepEqual(a, b) {
			keys = append(keys, path)
		}
	}
	compare("admin.listen", running.Admin.Listen, wanted.Admin.Listen)
	compare("admin.token_file", running.Admin.TokenFile, wanted.Admin.TokenFile)
	compare("admin.hosts", running.Admin.Hosts, wanted.Admin.Hosts)
	compare("admin.ready", running.Admin.Ready, wanted.Admin.Ready)
	compare("admin.tls", running.Admin.TLS, wanted.Admin.TLS)
	compare("log.format", running.Log.Format, wanted.Log.Format)
	compare("memory.budget", running.Memory.Budget, wanted.Memory.Budget)
	compare("zstd", running.Zstd, wanted.Zstd)
	compare("training", running.Training, wanted.Training)
	compare("history", running.History, wanted.History)
	compare("traces", running.Traces, wanted.Traces)
	compare("drain_delay", running.DrainDelay, wanted.DrainDelay)
	compare("drain_grace", running.DrainGrace, wanted.DrainGrace)
	compare("drain_timeout", running.DrainTimeout, wanted.DrainTimeout)
	for i := range running.Gateways {
		a := &running.Gateways[i]
		path := "gateways[" + a.Name + "]"
		b := wanted.Gateway(a.Name)
		if b == nil {
			keys = append(keys, path+" (removed)")
			continue
		}
		fields, was, is := reflect.TypeFor[Gateway](), reflect.ValueOf(*a), reflect.ValueOf(*b)
		for n := range fields.NumField() {
			if key, _, _ := strings.Cut(fields.Field(n).Tag.Get("yaml"), ","); key != "" && !slices.Contains(liveKeys, key) {
				compare(path+"."+key, was.Field(n).Interface(), is.Field(n).Interface())
			}
		}
	}
	for i := range wanted.Gateways {
		if name := wanted.Gateways[i].Name; running.Gateway(name) == nil {
			keys = append(keys, "gateways["+name+"] (added)")
		}
	}
	return keys
}
