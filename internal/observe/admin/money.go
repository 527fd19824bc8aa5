package admin

import (
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/gateway"
)

// Money is the saving by compression in US dollars: traffic less CPU time, at current prices. It is negative
// if compression costs more than it saves.
type Money struct {
	SoFar        float64 `json:"so_far"` // since the process began
	Month        float64 `json:"month"`  // extrapolated from OverSeconds
	OverSeconds  float64 `json:"over_seconds"`
	TrafficSoFar float64 `json:"traffic_so_far"` // saved
	CPUSoFar     float64 `json:"cpu_so_far"`     // spent
	TrafficMonth float64 `json:"traffic_month"`
	CPUMonth     float64 `json:"cpu_month"`

	Zones   int            `json:"zones"`
	Cross   float64        `json:"cross_zone"` // share of the traffic that crosses zones
	Words   string         `json:"crossing"`   // Cross in words
	Cloud   string         `json:"cloud"`
	Assumed bool           `json:"assumed"` // neither zones nor cross_zone is configured
	Prices  []price.Priced `json:"prices"`
}

// GatewayMoney is a gateway's share.
type GatewayMoney struct {
	SoFar float64 `json:"so_far"`
	Month float64 `json:"month"`
}

// workOf returns what a gateway has done since the process began.
func workOf(snap *gateway.Snapshot) price.Work {
	return price.Work{SavedBytes: float64(snap.Total.SavedBytes), CPUSeconds: snap.Total.SealCPUSeconds + snap.Total.OpenCPUSeconds}
}

// addMoney prices the work of a status's gateways.
func (st *Status) addMoney(r price.Rates, before ledgerEntry, now time.Time) {
	seconds := now.Sub(before.at).Seconds()
	var soFar, lately price.Work
	for i := range st.Gateways {
		g := &st.Gateways[i]
		all := workOf(&g.Snapshot)
		since := all.Since(before.done[g.Name])
		soFar, lately = soFar.Add(all), lately.Add(since)
		g.Money = &GatewayMoney{SoFar: r.Saving(all).Net(), Month: r.Month(since, seconds).Net()}
	}
	total, month := r.Saving(soFar), r.Month(lately, seconds)
	st.Money = &Money{
		SoFar: total.Net(), TrafficSoFar: total.Traffic, CPUSoFar: total.CPU,
		Month: month.Net(), TrafficMonth: month.Traffic, CPUMonth: month.CPU, OverSeconds: max(seconds, 0),
		Zones: r.Zones, Cross: r.Layout().Crossing(), Words: r.Layout().Words(assumptionKeys(r.Assumed)), Cloud: r.Cloud, Assumed: r.Assumed, Prices: r.Used(),
	}
}

// assumptionKeys returns the configuration keys that replace an assumption.
func assumptionKeys(assumed bool) string {
	if assumed {
		return "prices: {zones: …, cross_zone: …} in the configuration"
	}
	return ""
}

// Ledger records the work of gateways during the last hour. A nil Ledger has only the start of the process.
type Ledger struct {
	mu      sync.Mutex
	entries []ledgerEntry // by time
}

// ledgerEntry holds what gateways had done up to a time, by name.
type ledgerEntry struct {
	at   time.Time
	done map[string]price.Work
}

// ratePeriod is the period over which the current rate is computed.
const ratePeriod = time.Hour

// Note records what gateways have done up to now. It is called every few seconds, in the order of time.
func (l *Ledger) Note(now time.Time, gateways []gateway.Snapshot) {
	m := ledgerEntry{now, make(map[string]price.Work, len(gateways))}
	for i := range gateways {
		m.done[gateways[i].Name] = workOf(&gateways[i])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.entries[:0]
	for _, old := range l.entries {
		if now.Sub(old.at) <= ratePeriod {
			kept = append(kept, old)
		}
	}
	clear(l.entries[len(kept):])
	l.entries = append(kept, m)
}

// before returns the first entry of the last hour, or that of the process's start during the first hour.
func (l *Ledger) before(now, started time.Time) ledgerEntry {
	if now.Sub(started) <= ratePeriod || l == nil {
		return ledgerEntry{at: started}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.entries {
		if now.Sub(m.at) <= ratePeriod {
			return m
		}
	}
	return ledgerEntry{at: started}
}
