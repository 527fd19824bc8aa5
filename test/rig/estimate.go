package rig

import (
	"fmt"
	"math"
	"slices"
)

// Median returns the median of the values.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// Estimate is a median and its confidence interval of 95 %.
type Estimate struct {
	Low    float64 `json:"low"`
	Median float64 `json:"median"`
	High   float64 `json:"high"`
}

// EstimateOf derives the interval from order statistics, so it holds for any distribution.
func EstimateOf(values []float64) Estimate {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	off := int(math.Ceil(0.98 * math.Sqrt(float64(n)))) // 1.96 standard deviations of a binomial(n, 1/2)
	return Estimate{sorted[max(0, n/2-off)], Median(values), sorted[min(n-1, (n-1)/2+off)]}
}

func (e Estimate) String() string {
	return fmt.Sprintf("%.1f (%.1f to %.1f)", e.Median, e.Low, e.High)
}
