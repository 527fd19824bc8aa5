package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/cinch-layer/cinch/internal/dictionary"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/policy/published"
	"github.com/cinch-layer/cinch/internal/store"
)

// managedInfo holds what the store records about a dictionary that a gateway made. Its JSON is a contract:
// fields are added, never renamed.
type managedInfo struct {
	Rule     string    `json:"rule"`
	Current  bool      `json:"current"` // false: it was replaced
	At       time.Time `json:"at"`      // when it was announced
	By       string    `json:"by"`
	Gain     float64   `json:"gain"`     // share of the values' memory that it saved when it was evaluated
	Promised float64   `json:"promised"` // memory of the compressed values as a share of their uncompressed memory
	Setting  string    `json:"setting"`  // of the evaluation
	Seen     time.Time `json:"seen"`     // when a gateway last recorded that it has the rule
}

func (m *managedInfo) row(now time.Time) []string {
	if m == nil {
		return []string{"", "", ""}
	}
	rule := m.Rule
	if !m.Current {
		rule += " (former)"
	}
	gain := ""
	if m.Gain != 0 {
		gain = fmt.Sprintf("%.0f%%", 100*m.Gain)
	}
	if m.At.IsZero() { // an old record with only its number
		return []string{rule, "", gain}
	}
	return []string{rule, age(now.Sub(m.At)), gain}
}

// age formats a rounded duration for people.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d/time.Second)))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d/time.Minute))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d/time.Hour))
	}
	return fmt.Sprintf("%dd", int(d/(24*time.Hour)))
}

// managed returns the record of each dictionary. A dictionary that several records name counts as current if
// any of them says so.
func managed(records []storedRecord) map[uint32]*managedInfo {
	all := map[uint32]*managedInfo{}
	add := func(r storedRecord, v dictionary.Version, current bool) {
		if old := all[uint32(v.Dict)]; old == nil || current {
			all[uint32(v.Dict)] = &managedInfo{Rule: r.Rule, Current: current, At: v.At, By: v.By, Gain: v.Gain(), Promised: v.Promised, Setting: v.Setting, Seen: r.Seen}
		}
	}
	for _, r := range records {
		for _, v := range r.Former {
			add(r, v, false)
		}
		for _, n := range r.Older {
			add(r, dictionary.Version{Dict: n}, false)
		}
	}
	for _, r := range records {
		if r.Current != nil {
			add(r, *r.Current, true)
		}
	}
	return all
}

// storedRecord is a rule's record as written by gateways.
type storedRecord struct {
	dictionary.Record
	at store.Record
}

// recordsOf returns the records that can be read; others are ignored.
func recordsOf(ctx context.Context, s store.DictAdmin) (all []storedRecord, err error) {
	texts, err := s.Records(ctx)
	for _, at := range texts {
		if at.Name == published.PolicyRecord {
			continue // not of one rule
		}
		if r, err := dictionary.ParseRecord(at.Text); err == nil {
			all = append(all, storedRecord{r, at})
		}
	}
	return all, err
}

func parseNumber(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 16, 32)
	if err != nil || len(text) != 8 || n == 0 {
		return 0, wrongUsage(terminal.WithHint(fmt.Errorf("%q is not a dictionary's number", text), "it has 8 hexadecimal digits, as cinch dict ls shows it"))
	}
	return uint32(n), nil
}
