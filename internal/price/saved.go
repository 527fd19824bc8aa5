package price

// Done is what compression has done in some time.
type Done struct {
	SavedBytes float64 // that did not go over a network; negative: more went out than came in
	CPUSeconds float64 // that compressing and opening took
}

// Add is the sum of both.
func (d Done) Add(o Done) Done { return Done{d.SavedBytes + o.SavedBytes, d.CPUSeconds + o.CPUSeconds} }

// Since is what was done after an earlier count.
func (d Done) Since(o Done) Done {
	return Done{d.SavedBytes - o.SavedBytes, d.CPUSeconds - o.CPUSeconds}
}

// Rates say what savings are priced at.
type Rates struct {
	Table   Table
	Cloud   string // whose prices these are
	Zones   int    // that traffic is spread over
	Assumed bool   // nobody has said so

	CrossZone float64 // as in Layout
}

// Layout says what of the traffic crosses zones.
func (r Rates) Layout() Layout { return Layout{Zones: r.Zones, CrossZone: r.CrossZone} }

// Saving is dollars in some time.
type Saving struct {
	Traffic float64 // saved
	CPU     float64 // spent
}

// Net is what is left; negative: compressing costs more than it saves.
func (s Saving) Net() float64 { return s.Traffic - s.CPU }

// Saving prices what was done: traffic between zones for the share of bytes that crosses zones,
// less the CPU time.
func (r Rates) Saving(d Done) Saving {
	return Saving{
		Traffic: d.SavedBytes / gb * r.Table.CrossZone() * r.Layout().Crossing(),
		CPU:     d.CPUSeconds / 3600 * r.Table[VCPU].Price,
	}
}

// Month prices a month at the rate of what was done in so many seconds; without time it is nothing.
func (r Rates) Month(d Done, seconds float64) Saving {
	if seconds <= 0 {
		return Saving{}
	}
	s, months := r.Saving(d), seconds/SecondsPerMonth
	return Saving{s.Traffic / months, s.CPU / months}
}

// Priced is a price by its name.
type Priced struct {
	Name string `json:"name"`
	Entry
}

// Used lists the prices that Saving takes.
func (r Rates) Used() (list []Priced) {
	for _, name := range []string{CrossZoneOut, CrossZoneIn, VCPU} {
		list = append(list, Priced{name, r.Table[name]})
	}
	return list
}
