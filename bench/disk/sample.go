package main

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/cinch-layer/cinch/internal/estimate/disk"
	"github.com/cinch-layer/cinch/test/rig"
)

const (
	sampled = 2000
	seeds   = 20
)

// sample estimates from all records, and then from 2,000 records with each of 20 seeds.
func sample(ctx context.Context, o *options) (string, error) {
	var t rig.Table
	for i, size := range []int{8 << 10, 16 << 10, 64 << 10, 128 << 10} {
		var run disk.Options
		for _, c := range []string{"lz4", "zstd-3"} {
			run.ZFS = append(run.ZFS, disk.ZFS{Recordsize: size, Ashift: 12, Compression: c, CapToSector: true})
		}
		whole, err := o.compute(ctx, run)
		if err != nil {
			return "", err
		}
		if i == 0 {
			t.WriteString(o.about(whole))
			t.Row("setting", "records", "ratio of all", "farthest of 20 samples", "median margin", "margins that cover it")
			t.Rule(6)
		}
		var some []*disk.Result
		for seed := range uint64(seeds) {
			run.Sample, run.Seed = sampled, seed
			r, err := o.compute(ctx, run)
			if err != nil {
				return "", err
			}
			some = append(some, r)
		}
		for k, truth := range whole.Estimates {
			t.Row(compare(truth, k, whole.Records, some)...)
		}
	}
	return t.String(), nil
}

func compare(truth disk.Estimate, k int, records int64, some []*disk.Result) []string {
	farthest, covered := 0.0, 0
	var margins []float64
	for _, r := range some {
		e := r.Estimates[k]
		off := e.Ratio/truth.Ratio - 1
		if math.Abs(off) > math.Abs(farthest) {
			farthest = off
		}
		if math.Abs(e.Ratio-truth.Ratio) <= e.Margin {
			covered++
		}
		margins = append(margins, e.Margin/e.Ratio)
	}
	slices.Sort(margins)
	return []string{
		truth.Setting, fmt.Sprint(records), fmt.Sprintf("%.4f", truth.Ratio), fmt.Sprintf("%+.2f%%", 100*farthest),
		fmt.Sprintf("%.2f%%", 100*margins[len(margins)/2]), fmt.Sprintf("%d of %d", covered, len(some)),
	}
}
