package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/bench/corpora"
	"github.com/cinch-layer/cinch/test/rig"
)

// npmResult holds the sizes of npm's records in a server: plain, compressed by GLIDE, and compressed by Cinch
// with dictionaries.
type npmResult struct {
	Command string   `json:"command"`
	Machine string   `json:"machine"`
	Rows    []npmRow `json:"rows"`
}

// npmRow is the result of a way for records of the same owners that the dictionary learned from, or of
// others.
type npmRow struct {
	Owners  string  `json:"owners"`
	Way     string  `json:"way"`
	Learned int     `json:"learned"` // records that the dictionary could learn from
	Records int     `json:"records"` // number of measured records
	Stored  holding `json:"stored"`
	Once    int64   `json:"once"` // bytes of dictionary and policy in the server
}

const npmGlide = "Valkey GLIDE, zstd"

// npmWays lists the ways with each setting. The first server stores no dictionary and no policy: weighWays subtracts
// its size without values from that of the others, to count the bytes of both.
var npmWays = []struct {
	setting string
	of      []way
}{
	{"zstd-3", []way{
		{name: "plain", client: modePlain},
		{name: npmGlide, client: "glide-zstd", python: true},
		{name: "Cinch, zstd-3, dictionary", client: modeLibzstd, sealed: true},
	}},
	{"zstd-9", []way{
		{name: "plain", client: modePlain},
		{name: "Cinch, zstd-9, dictionary", client: modeLibzstd, sealed: true},
	}},
}

// leastNPM is the least number of records to learn from, and to measure.
const leastNPM = 200

func (o *options) runNPM() error {
	var packages []string
	if o.packages != "" {
		packages = strings.Split(o.packages, ",")
	}
	if err := fetchNPM(o.cache, packages...); err != nil {
		return err
	}
	records, err := corpora.Packages(o.cache)
	if err != nil {
		return err
	}
	k := kinds[0]
	r, err := o.measureNPM(map[string]corpora.Sides{
		sameOwners:  corpora.SplitWithin(k.name, records, k.least, k.most),
		otherOwners: corpora.Split(k.name, records, k.least, k.most),
	})
	if err != nil {
		return err
	}
	return o.report(r)
}

const sameOwners, otherOwners = "the same", "others"

func (o *options) measureNPM(splits map[string]corpora.Sides) (*npmResult, error) {
	var err error
	if o.self, err = os.Executable(); err != nil {
		return nil, err
	}
	r := &npmResult{Command: command(), Machine: rig.Machine()}
	for _, owners := range []string{sameOwners, otherOwners} {
		sides := splits[owners]
		if min(len(sides.Learn), len(sides.Measure)) < leastNPM {
			return nil, fmt.Errorf("%s: too few records: %d to train on, %d to measure", owners, len(sides.Learn), len(sides.Measure))
		}
		rows, err := o.weighNPM(owners, sides)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", owners, err)
		}
		r.Rows = append(r.Rows, rows...)
	}
	return r, nil
}

// weighNPM trains a dictionary for each setting, as a gateway with that setting does.
func (o *options) weighNPM(owners string, sides corpora.Sides) (rows []npmRow, err error) {
	for i, w := range npmWays {
		o.setting = w.setting
		d := newData("packages-"+w.setting, owners, sides, len(sides.Measure))
		if err := o.train(d); err != nil {
			return nil, err
		}
		some, err := o.weighWays(d, w.of)
		if err != nil {
			return nil, err
		}
		rows = append(rows, some[min(i, 1):]...) // plain values count once
	}
	return rows, nil
}

func (o *options) weighWays(d *data, of []way) (rows []npmRow, err error) {
	lanes, err := o.startLanes(d, of, d.measure)
	defer stopAll(lanes)
	if err != nil {
		return nil, err
	}
	for _, l := range lanes {
		r := npmRow{Owners: d.About, Way: l.name, Learned: d.Learned, Records: d.Records}
		if r.Stored, err = l.weigh(d.Dictionary.Number); err != nil {
			return nil, fmt.Errorf("%s: %w", l.name, err)
		}
		if l.sealed {
			r.Once = r.Stored.Rest - rows[0].Stored.Rest
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// write replaces the part's table on the page.
func (r *npmResult) write(path string) error {
	return rig.ReplacePart(path, "npm", r.table())
}

func (r *npmResult) table() string {
	var b rig.Table
	b.Row("owners", "learned from", "measured", "way", "values, KB", "to GLIDE", "allocated for values, KB", "to GLIDE", "MEMORY USAGE, KB", "to GLIDE", "used_memory with keys and dictionary, KB", "to GLIDE")
	b.Rule(12)
	for _, w := range r.Rows {
		glide := r.glide(w.Owners)
		cells := []string{w.Owners, strconv.Itoa(w.Learned), strconv.Itoa(w.Records), w.Way}
		for _, pair := range [][2]int64{
			{w.Stored.Lengths, glide.Stored.Lengths},
			{w.Stored.Classes, glide.Stored.Classes},
			{w.Stored.Keys, glide.Stored.Keys},
			{w.Stored.Used + w.Once, glide.Stored.Used},
		} {
			cells = append(cells, strconv.FormatInt(pair[0]>>10, 10), fmt.Sprintf("%+.1f %%", 100*(float64(pair[0])/float64(pair[1])-1)))
		}
		b.Row(cells...)
	}
	return fmt.Sprintf("```\n%s\n```\n\n%s.\n\n", r.Command, r.Machine) + b.String()
}

func (r *npmResult) glide(owners string) npmRow {
	for _, w := range r.Rows {
		if w.Owners == owners && w.Way == npmGlide {
			return w
		}
	}
	return npmRow{}
}
