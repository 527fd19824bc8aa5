package price

import "fmt"

// A month is what clouds bill by: 730 hours of storage and instances. Traffic is counted
// over the same time.
const (
	HoursPerMonth   = 730.0
	SecondsPerMonth = HoursPerMonth * 3600

	gb  = 1e9
	gib = 1 << 30
)

// DefaultZones is the number of zones that plans, reports and gateways assume where nothing else is said.
const DefaultZones = 3

// Layout says how a store is spread. The zero value is one copy in one zone.
type Layout struct {
	Copies    int     // of every value, 0 is 1: a primary and two replicas are 3
	Zones     int     // availability zones, 0 and 1: nothing crosses between zones
	CrossZone float64 // share of the bytes that cross zones, where it is known; 0: as Zones says
}

func (l Layout) copies() float64 { return float64(max(l.Copies, 1)) }

// Crossing is the share of bytes that go to another zone. Where it is not known the peer's zone counts as random: 2/3
// with three zones.
func (l Layout) Crossing() float64 {
	switch {
	case l.CrossZone > 0:
		return min(l.CrossZone, 1)
	case l.Zones <= 1:
		return 0
	}
	return float64(l.Zones-1) / float64(l.Zones)
}

// Words say what crosses zones. flags name what changes that, where it is an assumption; "": it is none.
func (l Layout) Words(flags string) string {
	zones := fmt.Sprintf("%d zones", l.Zones)
	switch share := l.Crossing(); {
	case share == 0:
		return "no traffic crosses zones"
	case l.CrossZone > 0:
		return fmt.Sprintf("%.3g%% of the traffic crosses zones", 100*share)
	case flags != "":
		return fmt.Sprintf("%.0f%% of the traffic crosses zones, assuming %s (%s)", 100*share, zones, flags)
	default:
		return fmt.Sprintf("%.0f%% of the traffic crosses zones (%s)", 100*share, zones)
	}
}

// CrossZone is the price of a GB that goes from one zone to another: the sender pays, and
// so does the receiver.
func (t Table) CrossZone() float64 { return t[CrossZoneOut].Price + t[CrossZoneIn].Price }

// Traffic is dollars a month for bytes that go from zone to zone.
func (t Table) Traffic(bytesPerSecond float64) float64 {
	return bytesPerSecond * SecondsPerMonth / gb * t.CrossZone()
}

// Memory is dollars a month for bytes held in memory, once.
func (t Table) Memory(bytes float64) float64 {
	return bytes / gib * t[RAM].Price * HoursPerMonth
}

// Disk is dollars a month for bytes on an SSD, once.
func (t Table) Disk(bytes float64) float64 { return bytes / gb * t[SSD].Price }

// CPU is dollars a month for so many cores.
func (t Table) CPU(cores float64) float64 { return cores * t[VCPU].Price * HoursPerMonth }

// Load is what a group of values asks of a store, with one setting.
type Load struct {
	Stored float64 // bytes that the store holds, one copy
	Wire   float64 // bytes of a value between application and store, on average

	ReadsPerSecond, WritesPerSecond float64
	CompressSeconds, OpenSeconds    float64 // CPU seconds a value
}

// Bill is dollars a month, by what they are for.
type Bill struct {
	Storage float64 `json:"storage"`
	Traffic float64 `json:"traffic"`
	CPU     float64 `json:"cpu"`
}

// Total is the sum.
func (b Bill) Total() float64 { return b.Storage + b.Traffic + b.CPU }

// Add returns the sum of two bills.
func (b Bill) Add(o Bill) Bill {
	return Bill{b.Storage + o.Storage, b.Traffic + o.Traffic, b.CPU + o.CPU}
}

// Medium is where values are held.
type Medium string

// The media. On the wire nothing is held.
const (
	InMemory Medium = "ram"
	OnDisk   Medium = "ssd"
	OnWire   Medium = "wire"
)

// Cores is how many cores compressing and opening takes.
func (l Load) Cores() float64 {
	return l.WritesPerSecond*l.CompressSeconds + l.ReadsPerSecond*l.OpenSeconds
}

// WireRate is bytes a second between application, store and the other copies.
func (l Load) WireRate(at Layout) float64 {
	return l.Wire * (l.ReadsPerSecond + l.WritesPerSecond*at.copies())
}

// Month prices a load. A write goes to the store and from there to the other copies;
// each of these ways crosses zones as the layout says.
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
