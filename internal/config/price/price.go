// Package price computes the monthly cost of bytes, memory and CPU. The prices are in a small embedded table
// with a source and a date for each, and can be overridden. Its only I/O is reading the table that it is
// given.
package price

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Names of the prices, which are the keys of the table.
const (
	CrossZoneOut = "cross_zone_out_gb"
	CrossZoneIn  = "cross_zone_in_gb"
	InterRegion  = "inter_region_gb"
	RAM          = "ram_gib_hour"
	SSD          = "ssd_gb_month"
	Snapshot     = "snapshot_gb_month"
	Object       = "object_gb_month"
	VCPU         = "vcpu_hour"
)

// ErrTable is wrapped by every error about a table of prices.
var ErrTable = errors.New("prices")

//go:embed prices.yaml
var embedded []byte

// The tables of other clouds hold only prices that differ from those of AWS.
//
//go:embed clouds/*.yaml
var clouds embed.FS

// Clouds lists the names that For accepts.
var Clouds = []string{"aws", "azure", "gcp"}

// Entry is one price. Source and date allow to check it.
type Entry struct {
	Price  float64 `yaml:"price" json:"price"` // in US dollars
	Unit   string  `yaml:"unit" json:"unit"`
	Source string  `yaml:"source" json:"source"`
	Date   string  `yaml:"date" json:"date"`
}

// Table holds all prices by name. It must not be changed.
type Table map[string]Entry

// Default returns the embedded table.
func Default() (Table, error) { return parse(embedded) }

// For returns the embedded table with a cloud's prices of traffic between zones; everything else stays AWS's.
func For(cloud string) (Table, error) {
	t, err := Default()
	if err != nil || cloud == "aws" {
		return t, err
	}
	if !slices.Contains(Clouds, cloud) {
		return nil, fmt.Errorf("%w: unknown cloud %q; known are %s", ErrTable, cloud, strings.Join(Clouds, ", "))
	}
	text, err := clouds.ReadFile("clouds/" + cloud + ".yaml")
	if err != nil {
		return nil, err
	}
	return t.With(text)
}

// With returns the table with entries replaced by those of a YAML text of the same shape. Unknown names are
// an error, so that typing mistakes show.
func (t Table) With(text []byte) (Table, error) {
	more, err := parse(text)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(t)
	for name, e := range more {
		if _, ok := t[name]; !ok {
			return nil, fmt.Errorf("%w: unknown price %q; known are %s", ErrTable, name, strings.Join(slices.Sorted(maps.Keys(t)), ", "))
		}
		all[name] = e
	}
	return all, nil
}

func parse(text []byte) (Table, error) {
	var file struct {
		Prices Table `yaml:"prices"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTable, err)
	}
	for name, e := range file.Prices {
		switch {
		case !(e.Price >= 0 && e.Price < 1e9):
			return nil, fmt.Errorf("%w: %s: a price of %v", ErrTable, name, e.Price)
		case e.Source == "" || e.Date == "":
			return nil, fmt.Errorf("%w: %s has no source or no date", ErrTable, name)
		}
	}
	return file.Prices, nil
}
