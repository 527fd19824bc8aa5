package price

import "fmt"

// A month, the period of clouds' bills, has 730 hours for storage, instances and traffic.
const (
	HoursPerMonth   = 730.0
	SecondsPerMonth = HoursPerMonth * 3600

	gb  = 1e9
	gib = 1 << 30
)

// DefaultZones is the default number of zones of plans, reports and gateways.
const DefaultZones = 3

// Layout describes the distribution of a store. The zero value is one copy in one zone.
type Layout struct {
	Copies    int      // of every value, 0 means 1: a primary and two replicas are 3
	Zones     int      // availability zones, 0 means 1: nothing crosses between zones
	CrossZone *float64 // share of the bytes that cross zones, if known; nil: derived from Zones
}

func (l Layout) copies() float64 { return float64(max(l.Copies, 1)) }

// Crossing returns the share of bytes that go to another zone. If it is not known the peer's zone is assumed
// to be random: 2/3 with three zones.
func (l Layout) Crossing() float64 {
	switch {
	case l.CrossZone != nil:
		return min(*l.CrossZone, 1)
	case l.Zones <= 1:
		return 0
	}
	return float64(l.Zones-1) / float64(l.Zones)
}

// Words describes the share of traffic that crosses zones. flags names the flags that replace the assumption; "":
// the share is configured.
func (l Layout) Words(flags string) string {
	zones := fmt.Sprintf("%d zones", l.Zones)
	switch share := l.Crossing(); {
	case share == 0:
		return "no traffic crosses zones"
	case l.CrossZone != nil:
		return fmt.Sprintf("%.3g%% of the traffic crosses zones", 100*share)
	case flags != "":
		return fmt.Sprintf("%.0f%% of the traffic crosses zones, assuming %s (%s)", 100*share, zones, flags)
	default:
		return fmt.Sprintf("%.0f%% of the traffic crosses zones (%s)", 100*share, zones)
	}
}

// CrossZone returns the price of a GB that goes from one zone to another: both the sender and the receiver
// pay.
func (t Table) CrossZone() float64 { return t[CrossZoneOut].Price + t[CrossZoneIn].Price }

// Traffic returns dollars per month for bytes that go from zone to zone.
func (t Table) Traffic(bytesPerSecond float64) float64 {
	return bytesPerSecond * SecondsPerMonth / gb * t.CrossZone()
}

// Memory returns dollars per month for one copy of bytes in memory.
func (t Table) Memory(bytes float64) float64 {
	return bytes / gib * t[RAM].Price * HoursPerMonth
}

// Disk returns dollars per month for one copy of bytes on an SSD.
func (t Table) Disk(bytes float64) float64 { return bytes / gb * t[SSD].Price }

// CPU returns dollars per month for cores.
func (t Table) CPU(cores float64) float64 { return cores * t[VCPU].Price * HoursPerMonth }

// Load is the load of a group of values on a store, with one setting.
type Load struct {
	Stored float64 // bytes that the store holds, one copy
	Wire   float64 // average bytes of a value between application and store

	ReadsPerSecond, WritesPerSecond float64
	CompressSeconds, OpenSeconds    float64 // CPU seconds per value
}

// Bill is dollars per month, by purpose.
type Bill struct {
	Storage float64 `json:"storage"`
	Traffic float64 `json:"traffic"`
	CPU     float64 `json:"cpu"`
}

// Total returns the sum.
func (b Bill) Total() float64 { return b.Storage + b.Traffic + b.CPU }

// Add returns the sum of two bills.
func (b Bill) Add(o Bill) Bill {
	return Bill{b.Storage + o.Storage, b.Traffic + o.Traffic, b.CPU + o.CPU}
}

// Medium is the kind of storage that holds values.
type Medium string

// The media. OnWire means that nothing is stored.
const (
	InMemory Medium = "ram"
	OnDisk   Medium = "ssd"
	OnWire   Medium = "wire"
)

// Cores returns how many cores compressing and decompressing takes.
func (l Load) Cores() float64 {
	return l.WritesPerSecond*l.CompressSeconds + l.ReadsPerSecond*l.OpenSeconds
}

// WireRate returns bytes per second between application, store and the other copies.
func (l Load) WireRate(at Layout) float64 {
	return l.Wire * (l.ReadsPerSecond + l.WritesPerSecond*at.copies())
}

// Month prices a load. A write goes to the store and from there to the other copies; each of these transfers
// crosses zones as in the layout.
func (t Table) Month(m Medium, l Load, at Layout) Bill {
	var b Bill
	switch m {
	case InMemory:
		b.Storage = t.Memory(l.Stored * at.copies())
	case OnDisk:
		b.Storage = t.Disk(l.Stored * at.copies())
	}
	b.Traffic = t.Traffic(at.Crossing() * l.WireRate(at))
	b.CPU = t.CPU(l.Cores())
	return b
}
