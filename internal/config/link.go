package config

import (
	"math/bits"

	"github.com/cinch-layer/cinch/codec"
)

// Link configures the link between two gateways: for gRPC it compresses connections as a whole, for HTTP the bodies,
// and for MongoDB the messages.
type Link struct {
	History string   `yaml:"history,omitempty"` // client, shared or none, towards an upstream; "": client
	Setting *Setting `yaml:"setting,omitempty"` // for sending; nil: zstd-3
	Window  Bytes    `yaml:"window,omitempty"`  // window of a history; 0: 8 MiB
	Memory  Bytes    `yaml:"memory,omitempty"`  // for all histories; 0: 256 MiB
}

// Values of link.history.
const (
	ClientHistory = "client" // one history per client connection
	SharedHistory = "shared" // one history for all clients
	NoHistory     = "none"   // links are not used
)

// refuseDictionary refuses a dictionary in a rule for messages.
func refuseDictionary(v *validator, r *Rule, path string) {
	if r.Dictionary != "" {
		v.add(path+".dictionary", "leave it out: between two gateways a link compresses messages with those before", "is only for stores")
	}
}

// WantsLink reports whether the gateway requests links from its upstream, or accepts them.
func (g *Gateway) WantsLink() bool { return g.LinkHistory() != NoHistory || g.Peers }

// LinkHistory returns link.history; "" stands for the default. A gateway with budgets for compressing uses no links
// unless it is configured to: budgets do not limit what links compress.
func (g *Gateway) LinkHistory() string {
	switch {
	case g.Link != nil:
		return g.Link.History
	case g.CPUBudget != 0 || g.LatencyBudget != 0:
		return NoHistory
	}
	return ""
}

// LinkOptions returns the options of the gateway's links. setting has its default filled in; l.Memory and windowLog,
// the log2 of the window in bytes, are 0 for the default.
func (g *Gateway) LinkOptions() (l Link, setting Setting, windowLog int) {
	if g.Link != nil {
		l = *g.Link
	}
	setting = Setting{Setting: codec.Setting{Codec: codec.Zstd, Level: 3}}
	if l.Setting != nil && (l.Setting.Codec != codec.Zstd || l.Setting.Level != 0) {
		setting = *l.Setting
	}
	return l, setting, max(bits.Len(uint(l.Window))-1, 0)
}

func (v *validator) link(g *Gateway, path string) {
	l := g.Link
	if l == nil {
		return
	}
	if l.History != "" {
		v.oneOf(path+".history", l.History, ClientHistory, SharedHistory, NoHistory)
	}
	v.historyWindow(l.Window, path+".window")
	checkRange(v, path+".memory", l.Memory, 1<<20, 1<<40)
	v.tunnelSetting(l.Setting, path+".setting")
}
