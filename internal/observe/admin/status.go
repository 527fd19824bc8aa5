package admin

import (
	"time"

	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
)

// Description is the configuration, to complement the counters. It may change with a reload.
type Description struct {
	Gateways     []GatewayInfo
	Dictionaries []Dictionary
	Learning     []Learning
	Prices       *price.Rates // nil: no prices
}

// GatewayInfo describes one gateway; Name is that of its gateway.Stats.
type GatewayInfo struct {
	Name     string
	Listen   string
	Upstream string // without credentials
	Enabled  bool   // false: compresses nothing, decompresses everything
	Rules    []RuleInfo
	Pack     *Packing             // nil: not configured to pack in the background
	Messages []sampled.KindStatus // for gRPC, if they are measured
	Report   *Report              // published by a roll-out of the servers behind the gateway
}

// Report is a table that a client of the API has published on the page.
type Report struct {
	Title  string     `json:"title"`
	Header []string   `json:"header"`
	Rows   [][]string `json:"rows"`
	Latest string     `json:"latest,omitempty"` // the last action
}

// GatewayKinds is an element of /api/messages.
type GatewayKinds struct {
	Gateway  string         `json:"gateway"`
	Messages []MeasuredKind `json:"messages"`
}

// MeasuredKind describes the messages of one method and direction: numbers only, no contents. Estimates are for other
// settings, on the sampled messages.
type MeasuredKind struct {
	sampled.KindStatus
	Estimates []sampled.Estimate `json:"estimates"`
}

// Packing describes background packing of what the upstream already holds. Counts are since the process began, or,
// for an estimate, of the running or else the last pass.
type Packing struct {
	Wanted   bool       `json:"wanted"`  // the gateway is enabled and has rules
	Running  bool       `json:"running"` // a pass is in progress, here
	Paused   bool       `json:"paused"`  // by an operator, here or at another gateway of the store
	PausedAt *time.Time `json:"paused_at,omitempty"`
	Estimate bool       `json:"estimate"` // nothing is replaced
	Done     float64    `json:"done"`     // of the pass
	Duty     float64    `json:"duty"`     // share of the time spent working
	Passes   int64      `json:"passes"`
	LastPass *time.Time `json:"last_pass,omitempty"`
	Trouble  string     `json:"trouble,omitempty"` // why the last pass was not complete
	// WithoutDictionary reports that values were compressed without the dictionary of a rule with dictionary: auto, as
	// several users may have written them.
	WithoutDictionary bool  `json:"without_dictionary,omitempty"`
	Keys              int64 `json:"keys"`
	Values            int64 `json:"values"`
	BeforeBytes       int64 `json:"before_bytes"`
	AfterBytes        int64 `json:"after_bytes"`
	Problems          int64 `json:"problems"`
}

// RuleInfo describes one rule, in the policy's order.
type RuleInfo struct {
	Name    string
	Match   string // readable summary of what it covers: `menu:* · string`
	Setting string // codec, level and dictionary
	Instead string // the configured setting, if Setting is another one; "": it is not
}

// Dictionary describes one dictionary that this process holds.
type Dictionary struct {
	Name   string `json:"name"`   // from the configuration; empty if it came from a store
	Number string `json:"number"` // 8 hex digits
	Bytes  int    `json:"bytes"`

	// For a managed dictionary in use:
	Gateway  string  `json:"gateway,omitempty"`
	Rule     string  `json:"rule,omitempty"`
	Promised float64 `json:"promised,omitempty"` // raw bytes / stored bytes
	Observed float64 `json:"observed,omitempty"` // the same, for the last values
	// AnnouncedAt is by the clock of the gateway that trained it.
	AnnouncedAt *time.Time `json:"announced_at,omitempty"`
}

// Learning is a rule with dictionary: auto that has none yet, or whose training is in progress.
type Learning struct {
	Gateway string `json:"gateway"`
	Rule    string `json:"rule"`
	Samples int    `json:"samples"` // values
	Wanted  int    `json:"wanted"`  // before training begins
	Step    int    `json:"step,omitempty"`
	Steps   int    `json:"steps,omitempty"`   // some are skipped
	Trying  string `json:"trying,omitempty"`  // what this step tries, for people
	Waiting bool   `json:"waiting,omitempty"` // another training of the process has to end first
	Refused bool   `json:"refused,omitempty"` // the last training found no dictionary that saves enough
}

// Status is the document of /api/status, whose contract is docs/METRICS.md.
type Status struct {
	Version       string       `json:"version"`
	Revision      string       `json:"revision"`
	StartedAt     time.Time    `json:"started_at"`
	UptimeSeconds float64      `json:"uptime_seconds"`
	Ready         bool         `json:"ready"`
	NotReady      string       `json:"not_ready,omitempty"` // the reason
	Degraded      []string     `json:"degraded"`            // problems, ready or not
	Gateways      []Gateway    `json:"gateways"`
	Budget        Budgets      `json:"budget"`
	Codec         *CodecPool   `json:"codec,omitempty"`
	MemoryBytes   int64        `json:"memory_bytes,omitempty"` // resident, of the process
	Dictionaries  []Dictionary `json:"dictionaries"`
	Learning      []Learning   `json:"learning"`
	Actions       []string     `json:"actions"` // those that readers with credentials may request
	Money         *Money       `json:"money,omitempty"`
}

// Gateway is one gateway: its counters and its configuration.
type Gateway struct {
	gateway.Snapshot
	Listen   string `json:"listen"`
	Upstream string `json:"upstream"`
	Enabled  bool   `json:"enabled"`
	Rules    []Rule `json:"rules"` // replaces Snapshot's

	Pack     *Packing             `json:"pack,omitempty"`
	Messages []sampled.KindStatus `json:"messages,omitempty"`
	Report   *Report              `json:"report,omitempty"`
	Money    *GatewayMoney        `json:"money,omitempty"`
}

// Rule is one rule: its counters and its configuration.
type Rule struct {
	gateway.RuleTotal
	Match   string `json:"match"`
	Setting string `json:"setting"`
	Instead string `json:"instead_of,omitempty"` // the configured setting, if another one applies until the next reload
	Active  bool   `json:"active"`               // false: a reload has removed it
}

// Budgets are the byte budgets of the two directions.
type Budgets struct {
	Request Budget `json:"request"`
	Reply   Budget `json:"reply"`
}

// Budget is the state of one byte budget.
type Budget struct {
	SizeBytes   int64   `json:"size_bytes"` // 0: no limit
	InUseBytes  int64   `json:"in_use_bytes"`
	PeakBytes   int64   `json:"peak_bytes"`
	Waiting     int     `json:"waiting"`
	Waits       uint64  `json:"waits"`
	WaitSeconds float64 `json:"wait_seconds"`
	GaveUp      uint64  `json:"gave_up"`
}

// CodecPool is the state of the pool of codecs.
type CodecPool struct {
	InFlight int `json:"in_flight"`
	Limit    int `json:"limit"`
}

// status combines the counters with the configuration.
func (s *Server) status(now time.Time) Status {
	d := s.describe()
	m := s.opts.Metrics
	st := Status{
		Version: m.Version, Revision: m.Revision,
		StartedAt: s.started.UTC(), UptimeSeconds: now.Sub(s.started).Seconds(),
		Ready:        true,
		Degraded:     []string{},
		Gateways:     []Gateway{},
		Budget:       Budgets{budgetOf(m.Requests.Use()), budgetOf(m.Replies.Use())},
		Dictionaries: append([]Dictionary{}, d.Dictionaries...),
		Learning:     append([]Learning{}, d.Learning...),
		Actions:      s.actions(),
	}
	notes, err := s.ready(ReadyQuery{})
	if err != nil {
		st.Ready, st.NotReady = false, err.Error()
	}
	st.Degraded = append(st.Degraded, notes...)
	if s.opts.Memory != nil {
		st.MemoryBytes = s.opts.Memory()
	}
	if m.Codec != nil {
		inFlight, limit := m.Codec()
		st.Codec = &CodecPool{inFlight, limit}
	}
	infos := map[string]GatewayInfo{}
	for _, info := range d.Gateways {
		infos[info.Name] = info
	}
	for _, g := range m.Gateways {
		snap := g.Snapshot()
		st.Gateways = append(st.Gateways, gatewayOf(snap, infos[snap.Name]))
	}
	if d.Prices != nil {
		st.addMoney(*d.Prices, s.opts.Ledger.before(now, s.started), now)
	}
	return st
}

// actions returns the names of actions, or none if clients can't authenticate.
func (s *Server) actions() []string {
	names := []string{}
	for _, a := range s.opts.Actions {
		if s.opts.Access.Credentials {
			names = append(names, a.Name)
		}
	}
	return names
}

func gatewayOf(snap gateway.Snapshot, info GatewayInfo) Gateway {
	return Gateway{
		Snapshot: snap,
		Listen:   info.Listen, Upstream: info.Upstream, Enabled: info.Enabled,
		Rules: mergeRules(info.Rules, snap.Rules), Pack: info.Pack, Messages: info.Messages, Report: info.Report,
	}
}

// mergeRules lists the policy's rules in its order, including those without counters, and then the counters
// of rules that are gone.
func mergeRules(infos []RuleInfo, totals []gateway.RuleTotal) []Rule {
	byName := map[string]gateway.RuleTotal{}
	for _, t := range totals {
		byName[t.Rule] = t
	}
	rules := []Rule{}
	for _, info := range infos {
		t, ok := byName[info.Name]
		if !ok {
			t = gateway.RuleTotal{Rule: info.Name, Codecs: []gateway.CodecTotal{}, LeftBy: []gateway.LeftTotal{}}
		}
		delete(byName, info.Name)
		rules = append(rules, Rule{RuleTotal: t, Match: info.Match, Setting: info.Setting, Instead: info.Instead, Active: true})
	}
	for _, t := range totals {
		if _, gone := byName[t.Rule]; gone {
			rules = append(rules, Rule{RuleTotal: t})
		}
	}
	return rules
}

func budgetOf(use memory.Use) Budget {
	return Budget{
		SizeBytes: use.Size, InUseBytes: use.InUse, PeakBytes: use.Peak, Waiting: use.Waiting,
		Waits: use.Waits, WaitSeconds: use.Waited.Seconds(), GaveUp: use.GaveUp,
	}
}
