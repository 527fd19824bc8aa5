package price

// Work is the saving and the cost of compression in some period.
type Work struct {
	SavedBytes float64 // not sent over a network; negative: more bytes went out than came in
	CPUSeconds float64 // for compressing and decompressing
}

// Add returns the sum of both.
func (d Work) Add(o Work) Work { return Work{d.SavedBytes + o.SavedBytes, d.CPUSeconds + o.CPUSeconds} }

// Since returns the work after an earlier count.
func (d Work) Since(o Work) Work {
	return Work{d.SavedBytes - o.SavedBytes, d.CPUSeconds - o.CPUSeconds}
}

// Rates holds the prices for savings.
type Rates struct {
	Table   Table
	Cloud   string // source of the prices
	Zones   int    // number of zones
	Assumed bool   // neither is configured

	CrossZone *float64 // as in Layout
}

// Layout returns the distribution over zones.
func (r Rates) Layout() Layout { return Layout{Zones: r.Zones, CrossZone: r.CrossZone} }

// Saving is dollars in some period.
type Saving struct {
	Traffic float64 // saved
	CPU     float64 // spent
}

// Net returns the net saving; negative: compressing costs more than it saves.
func (s Saving) Net() float64 { return s.Traffic - s.CPU }

// Saving computes the dollars saved and spent by work: the traffic between zones, for the share of bytes that crosses
// zones, and the CPU time.
func (r Rates) Saving(d Work) Saving {
	return Saving{
		Traffic: d.SavedBytes / gb * r.Table.CrossZone() * r.Layout().Crossing(),
		CPU:     d.CPUSeconds / 3600 * r.Table[VCPU].Price,
	}
}

// Month extrapolates the work of a number of seconds to a month. It returns zero if seconds is zero.
func (r Rates) Month(d Work, seconds float64) Saving {
	if seconds <= 0 {
		return Saving{}
	}
	s, months := r.Saving(d), seconds/SecondsPerMonth
	return Saving{s.Traffic / months, s.CPU / months}
}

// Priced is a price with its name.
type Priced struct {
	Name string `json:"name"`
	Entry
}

// Used returns the prices that Saving uses.
func (r Rates) Used() (list []Priced) {
	for _, name := range []string{CrossZoneOut, CrossZoneIn, VCPU} {
		list = append(list, Priced{name, r.Table[name]})
	}
	return list
}
