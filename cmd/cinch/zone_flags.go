package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/price"
)

// layoutFlags are the flags for the share of traffic that crosses zones. Plans and reports share them, with
// the same defaults.
type layoutFlags struct {
	zones     int
	crossZone string
	set       *pflag.FlagSet
}

func (l *layoutFlags) add(f *pflag.FlagSet) {
	l.set = f
	f.IntVar(&l.zones, "zones", price.DefaultZones, "`N` availability zones that clients, servers and copies are spread over evenly: (N-1)/N of the traffic crosses zones; 1: none")
	f.StringVar(&l.crossZone, "cross-zone", "", "`SHARE` of the traffic that crosses zones, if known: 100% for all of it (default: computed from --zones)")
}

// read returns the layout, and whether it is the default.
func (l *layoutFlags) read() (at price.Layout, assumed bool, err error) {
	at.Zones = l.zones
	if at.Zones < 1 {
		return at, false, errors.New("--zones: write 1 or more")
	}
	if l.crossZone == "" {
		return at, !l.set.Changed("zones"), nil
	}
	var share config.Ratio
	if err := share.UnmarshalText([]byte(l.crossZone)); err != nil {
		return at, false, fmt.Errorf("--cross-zone: %w", err)
	}
	at.CrossZone = new(float64(share))
	return at, false, nil
}
