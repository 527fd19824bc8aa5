package disk

import "math"

// accuracy describes how close estimates come to what a filesystem stores. bench/results/disk.md describes
// the measurements.
type accuracy struct {
	factor float64 // average ratio of the filesystem's length to the estimated one
	spread float64 // relative error of most records
	most   float64 // maximum relative error of whole directories
}

// exact is for codecs that are computed to the byte.
var exact = accuracy{factor: 1}

// length returns the filesystem's length for an estimated one.
func (a accuracy) length(n int) int {
	if a.factor == 1 {
		return n
	}
	return int(math.Round(float64(n) * a.factor))
}

// roundUp returns the average size in whole blocks of an estimated length. If all records were just below or
// just above a whole block, the errors of plain rounding would add up.
func (a accuracy) roundUp(n, block int) int {
	if a.spread == 0 {
		return roundUp(n, block)
	}
	low := float64(n) * (1 - a.spread) / float64(block)
	high := float64(n) * (1 + a.spread) / float64(block)
	return int(math.Round(float64(block) * (ceilings(high) - ceilings(low)) / (high - low)))
}

// ceilings returns the integral of the ceiling function from 0 to x.
func ceilings(x float64) float64 {
	whole := math.Floor(x)
	return whole*(whole+1)/2 + (x-whole)*(whole+1)
}

// btrfsAccuracy returns the accuracy for btrfs. Without force one unit that gains too little keeps a whole
// file uncompressed, which an estimate may get wrong.
func btrfsAccuracy(alg string, force bool) accuracy {
	switch alg {
	case "lzo":
		a := accuracy{factor: 1.005, spread: 0.008, most: 0.02}
		if !force {
			a.most = 0.15
		}
		return a
	case "zlib", "zstd":
		return accuracy{factor: 1, most: 0.005}
	}
	return exact
}

func zfsAccuracy(alg string) accuracy {
	switch alg {
	case "gzip":
		return accuracy{factor: 1, most: 0.005}
	case "zstd": // ZFS has an older zstd than Cinch
		return accuracy{factor: 1, most: 0.02}
	}
	return exact
}

// goZstdError bounds the relative error of Go's zstd in place of libzstd: 10 % at level 15, 7 % at 9, 4 % below.
const goZstdError = 0.12
