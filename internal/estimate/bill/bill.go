// Package bill reads cloud cost and usage exports and ranks the costs that compression can cut. It supports
// AWS cost and usage reports (1 and 2), as CSV, gzipped CSV and Parquet. It reads one row at a time and holds
// only sums.
package bill

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// Errors about files.
var (
	// ErrFormat reports a file that is not a cost and usage report.
	ErrFormat = errors.New("not an AWS cost and usage report")
	// ErrEmpty reports a file without any line that has a cost.
	ErrEmpty = errors.New("no line with a cost")
)

// Line holds the used fields of a line item.
type Line struct {
	Product   string // code or name
	UsageType string
	Kind      string // line_item_line_item_type
	Amount    float64
	Cost      float64   // unblended
	From, To  time.Time // time of use; zero: not in the file
}

// share returns the share of the line that lies in a period. It returns 1 if the period has no bounds or the line
// has no dates.
func (l *Line) share(from, to time.Time) float64 {
	switch {
	case from.IsZero() || l.From.IsZero():
		return 1
	case !l.To.After(l.From):
		if l.From.Before(from) || !l.From.Before(to) {
			return 0
		}
		return 1
	}
	within := earlier(to, l.To).Sub(later(from, l.From))
	return max(float64(within)/float64(l.To.Sub(l.From)), 0)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Report is a ranked bill. Its JSON is a contract: fields are added, never renamed. Money is in the bill's
// own currency.
type Report struct {
	Lines     int64      `json:"lines"`
	Total     float64    `json:"total"`     // usage, without taxes, credits and refunds
	Reducible float64    `json:"reducible"` // of the total
	Rows      []Category `json:"categories"`
	From      *time.Time `json:"from,omitempty"` // beginning of the first line, within the requested period; missing: no line has a date
	To        *time.Time `json:"to,omitempty"`   // end of the last line, within the requested period
}

// BetweenZones is the category of traffic between zones.
const BetweenZones = "traffic between zones"

// Of returns a category, with no cost if the bill does not have it.
func (r *Report) Of(category string) Category {
	for _, c := range r.Rows {
		if c.Name == category {
			return c
		}
	}
	return Category{Name: category}
}

// Category is a kind of usage that compression can reduce.
type Category struct {
	Name  string  `json:"name"`
	Cost  float64 `json:"cost"`
	Share float64 `json:"share"` // of the total
	Next  string  `json:"next"`  // advice on what to plan
	Types []Type  `json:"usage_types"`
}

// Type is a usage type.
type Type struct {
	Name   string  `json:"name"`
	Cost   float64 `json:"cost"`
	Amount float64 `json:"amount"`
}

// kinds are tried in order; the first that matches a usage type, and the product if it has one, applies.
var kinds = []struct {
	name    string
	product *regexp.Regexp
	usage   *regexp.Regexp
	next    string
}{
	{
		BetweenZones, nil, regexp.MustCompile(`DataTransfer-Regional-Bytes|DataTransfer-xAZ-|VpcPeering-(In|Out)-Bytes|InterZone-(In|Out)`),
		"services that talk across zones: cinch plan http://GATEWAY:9470 for gRPC, redis://HOST for caches",
	},
	{
		"traffic between regions", nil, regexp.MustCompile(`-AWS-(In|Out)-Bytes|InterRegion-`),
		"replication and clients across regions: cinch plan on a sample of their data",
	},
	{
		"traffic to the internet", nil, regexp.MustCompile(`DataTransfer-Out-Bytes`),
		"data sent to outside clients: cinch plan on a sample of it in a file",
	},
	{
		"NAT and load balancers, by the byte", regexp.MustCompile(`^$|EC2|VPC|ELB|Load ?Balanc|Elastic Compute Cloud|Virtual Private Cloud`), regexp.MustCompile(`NatGateway-Bytes|TransitGateway-Bytes|VpcEndpoint-Bytes|DataProcessing-Bytes`),
		"the traffic through them: cinch plan http://GATEWAY:9470, or a sample of it in a file",
	},
	{
		"snapshots and backups", nil, regexp.MustCompile(`Snapshot(Usage|ArchiveStorage)|BackupUsage|ChargedBackup`),
		"their volumes: cinch plan --disk zfs PATH",
	},
	{
		"caches in memory", regexp.MustCompile(`ElastiCache|MemoryDB`), regexp.MustCompile(`Usage:|NodeUsage|DataStorage|CachedData`),
		"the cache: cinch plan redis://HOST",
	},
	{
		"instances sized by memory", nil, regexp.MustCompile(`(BoxUsage|SpotUsage|DedicatedUsage|ReservedUsage|HeavyUsage)[:.].*\b(r\d|x\d|x2|u-|z1)|InstanceUsage:db\.(r|x)`),
		"the stores that fill their memory: cinch plan redis://HOST, tarantool://HOST",
	},
	{
		"database storage", nil, regexp.MustCompile(`RDS:.*Storage|Aurora:Storage|DocDB:Storage|StorageUsage|TimedStorage.*(DynamoDB|DDB)`),
		"cinch plan on an export, mongodb://HOST for its traffic",
	},
	{
		"volumes", nil, regexp.MustCompile(`EBS:VolumeUsage|EFS|FSx.*Storage`),
		"cinch plan --disk zfs PATH, or --disk btrfs PATH",
	},
	{
		"tables in DynamoDB", regexp.MustCompile(`DynamoDB`), regexp.MustCompile(`TimedStorage-`),
		"cinch plan on an export",
	},
	{
		"object storage", regexp.MustCompile(`^$|S3|Glacier|Simple Storage Service`), regexp.MustCompile(`TimedStorage-`),
		"cinch plan on a sample of the objects",
	},
}

// maxTypes limits the usage types that are held.
const maxTypes = 20000

// adder adds up lines.
type adder struct {
	report Report
	types  []map[string]*Type // by place in kinds
	held   int

	from, to time.Time // period to count; zero: all
}

func newAdder() *adder { return &adder{types: make([]map[string]*Type, len(kinds))} }

func (a *adder) add(l Line) error {
	switch l.Kind {
	case "Tax", "Credit", "Refund", "BundledDiscount", "EdpDiscount", "PrivateRateDiscount", "SavingsPlanNegation":
		return nil
	}
	if l.Cost != l.Cost || l.Cost > 1e15 || l.Cost < -1e15 {
		return fmt.Errorf("%w: a cost of %v", ErrFormat, l.Cost)
	}
	share := l.share(a.from, a.to)
	if share == 0 {
		return nil
	}
	l.Cost, l.Amount = l.Cost*share, l.Amount*share
	a.cover(&l)
	a.report.Lines++
	a.report.Total += l.Cost
	k := kindOf(l)
	if k < 0 || l.Cost == 0 && l.Amount == 0 {
		return nil
	}
	if a.types[k] == nil {
		a.types[k] = make(map[string]*Type)
	}
	name := l.UsageType
	if a.types[k][name] == nil {
		if a.held >= maxTypes {
			name = "(others)"
		}
		if a.types[k][name] == nil {
			a.types[k][name] = &Type{Name: name}
			a.held++
		}
	}
	t := a.types[k][name]
	t.Cost += l.Cost
	t.Amount += l.Amount
	return nil
}

// cover extends the period of the lines.
func (a *adder) cover(l *Line) {
	if l.From.IsZero() {
		return
	}
	from, to := l.From, later(l.From, l.To)
	if !a.from.IsZero() {
		from, to = later(from, a.from), earlier(to, a.to)
	}
	if r := &a.report; r.From == nil {
		r.From, r.To = &from, &to
	} else {
		*r.From, *r.To = earlier(*r.From, from), later(*r.To, to)
	}
}

func kindOf(l Line) int {
	for i, k := range kinds {
		if (k.product == nil || k.product.MatchString(l.Product)) && k.usage.MatchString(l.UsageType) {
			return i
		}
	}
	return -1
}

// finish ranks the sums.
func (a *adder) finish() (*Report, error) {
	r := &a.report
	if r.Lines == 0 || r.Total == 0 {
		return nil, ErrEmpty
	}
	r.Rows = []Category{}
	for i, types := range a.types {
		if len(types) == 0 {
			continue
		}
		c := Category{Name: kinds[i].name, Next: kinds[i].next}
		for _, t := range types {
			c.Types = append(c.Types, *t)
			c.Cost += t.Cost
		}
		slices.SortFunc(c.Types, func(x, y Type) int { return cmp.Or(cmp.Compare(y.Cost, x.Cost), cmp.Compare(x.Name, y.Name)) })
		c.Share = c.Cost / r.Total
		r.Reducible += c.Cost
		r.Rows = append(r.Rows, c)
	}
	slices.SortFunc(r.Rows, func(x, y Category) int { return cmp.Compare(y.Cost, x.Cost) })
	return r, nil
}
