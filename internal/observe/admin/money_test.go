package admin

import (
	"math"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/gateway"
)

// moneyServer returns a server with two gateways: one to a store, whose reads save bytes too, and one for messages,
// whose reads don't and which has used an hour of CPU.
func moneyServer(t *testing.T, r price.Rates) (s *Server, store, messages *gateway.Stats) {
	t.Helper()
	if r.Table == nil {
		var err error
		if r.Table, err = price.For(r.Cloud); err != nil {
			t.Fatal(err)
		}
	}
	store, messages = gateway.NewStats("store", "redis"), gateway.NewStats("messages", "grpc")
	work(store, 36*time.Second)
	messages.Sealed("all", codec.Zstd, 1e9, 4e8, 1800*time.Second)
	messages.Opened(codec.Zstd, 5e8, 2e9, 1800*time.Second)
	s = New(Options{
		Metrics:  &gateway.Metrics{Gateways: []*gateway.Stats{store, messages}},
		Ledger:   &Ledger{},
		Describe: func() Description { return Description{Prices: &r} },
	})
	return s, store, messages
}

// work writes and reads 2 GB that compress to a quarter: 3 GB saved.
func work(store *gateway.Stats, cpu time.Duration) {
	store.Sealed("all", codec.Zstd, 2e9, 5e8, cpu)
	store.Opened(codec.Zstd, 5e8, 2e9, cpu)
}

func note(s *Server, at time.Time) {
	var all []gateway.Snapshot
	for _, g := range s.opts.Metrics.Gateways {
		all = append(all, g.Snapshot())
	}
	s.opts.Ledger.Note(at, all)
}

func equal(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*math.Abs(want) || math.IsNaN(got) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// The wanted figures are computed by hand. A GB between zones costs 2 cents, and two thirds of the traffic cross
// zones; an hour of CPU costs 4.25 cents. The store's gateway has saved 3 GB in 72 s. The other one has saved 0.6 GB
// in an hour, which costs more than it saves.
func TestMoney(t *testing.T) {
	const (
		storeTraffic, storeCPU       = 3 * 0.02 * 2 / 3, 72 * 0.0425 / 3600
		messagesTraffic, messagesCPU = 0.6 * 0.02 * 2 / 3, 0.0425
		net                          = storeTraffic - storeCPU + messagesTraffic - messagesCPU
	)
	s, _, _ := moneyServer(t, price.Rates{Cloud: "aws", Zones: 3})
	st := s.status(s.started.Add(30 * time.Minute))
	m := st.Money
	equal(t, "so far", m.SoFar, net)
	equal(t, "traffic so far", m.TrafficSoFar, storeTraffic+messagesTraffic)
	equal(t, "CPU so far", m.CPUSoFar, storeCPU+messagesCPU)
	equal(t, "a month, of half an hour", m.Month, net*730*2)
	equal(t, "traffic a month", m.TrafficMonth, (storeTraffic+messagesTraffic)*730*2)
	equal(t, "CPU a month", m.CPUMonth, (storeCPU+messagesCPU)*730*2)
	equal(t, "over", m.OverSeconds, 1800)
	equal(t, "the store", st.Gateways[0].Money.SoFar, storeTraffic-storeCPU)
	equal(t, "the store a month", st.Gateways[0].Money.Month, (storeTraffic-storeCPU)*730*2)
	equal(t, "what loses", st.Gateways[1].Money.SoFar, messagesTraffic-messagesCPU)
	if g := st.Gateways[1].Money; g.SoFar >= 0 || g.Month >= 0 {
		t.Errorf("what costs more than it saves: %+v", g)
	}
	if m.Zones != 3 || m.Cloud != "aws" || m.Assumed || len(m.Prices) != 3 || m.Prices[0].Name != price.CrossZoneOut || m.Prices[0].Source == "" {
		t.Errorf("%+v", m)
	}
}

// In one zone traffic is free, and only the cost of CPU remains.
func TestMoneyInOneZone(t *testing.T) {
	for _, r := range []price.Rates{{Cloud: "aws", Zones: 1}, {Cloud: "azure", Zones: 3}} {
		s, _, _ := moneyServer(t, r)
		m := s.status(s.started.Add(time.Minute)).Money
		if m.TrafficSoFar != 0 || m.TrafficMonth != 0 || m.SoFar != -m.CPUSoFar || m.SoFar >= 0 {
			t.Errorf("%s, %d zones: %+v", r.Cloud, r.Zones, m)
		}
	}
}

// A month is extrapolated from the last hour: earlier work does not count, a quiet hour is worth nothing, and
// right after the start the value is unknown.
func TestMonthIsOfTheLastHour(t *testing.T) {
	s, store, _ := moneyServer(t, price.Rates{Cloud: "aws", Zones: 3})
	if m := s.status(s.started).Money; m.Month != 0 || m.OverSeconds != 0 || m.SoFar == 0 {
		t.Errorf("at the start: %+v", m)
	}
	soFar := s.status(s.started.Add(time.Second)).Money.SoFar
	for at := 10 * time.Second; at <= 3*time.Hour; at += 10 * time.Second {
		note(s, s.started.Add(at))
	}
	if m := s.status(s.started.Add(3 * time.Hour)).Money; m.Month != 0 || m.OverSeconds != 3600 || m.SoFar != soFar {
		t.Errorf("a quiet hour: %+v", m)
	}
	work(store, 0)
	m := s.status(s.started.Add(3*time.Hour + 5*time.Second)).Money
	equal(t, "over", m.OverSeconds, 3595)
	equal(t, "a month", m.Month, 0.04*730*3600/3595)
	if n := len(s.opts.Ledger.entries); n != 361 {
		t.Errorf("%d marks for an hour", n)
	}
}

// Current prices apply to earlier work too.
func TestPricesAreThoseOfNow(t *testing.T) {
	r := price.Rates{Cloud: "aws", Zones: 3, Assumed: true}
	s, _, _ := moneyServer(t, r)
	table, err := price.For("aws")
	if err != nil {
		t.Fatal(err)
	}
	before := s.status(s.started.Add(time.Minute)).Money
	if !before.Assumed {
		t.Error("assumed prices are not marked as assumed")
	}
	r.Table, err = table.With([]byte("prices: {cross_zone_out_gb: {price: 0.03, unit: GB, source: contract, date: 2026-11-01}}"))
	if err != nil {
		t.Fatal(err)
	}
	s.opts.Describe = func() Description { return Description{Prices: &r} }
	after := s.status(s.started.Add(time.Minute)).Money
	equal(t, "at double the price", after.TrafficSoFar, 2*before.TrafficSoFar)
	if after.CPUSoFar != before.CPUSoFar || after.Prices[0].Source != "contract" {
		t.Errorf("%+v", after)
	}
	s.opts.Describe = nil
	if st := s.status(s.started.Add(time.Minute)); st.Money != nil || st.Gateways[0].Money != nil {
		t.Error("money without prices")
	}
}
