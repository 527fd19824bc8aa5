package disk

import "math"

// accuracy is how near figures come to what a filesystem stores. bench/results/disk.md has
// on what it was measured.
type accuracy struct {
	factor float64 // a length of ours times this is the filesystem's, on average
	spread float64 // and is off by up to such a share for most records
	most   float64 // figures of whole directories are off by no more than such a share
}

// exact is a codec that is computed to the byte.
var exact = accuracy{factor: 1}

// length is what ours stands for.
func (a accuracy) length(n int) int {
	if a.factor == 1 {
		return n
	}
	return int(math.Round(float64(n) * a.factor))
}

// roundUp is how much an estimated length takes in whole blocks on average. Where all records
// come out just below a whole block or just above it, plain rounding would add up.
func (a accuracy) roundUp(n, block int) int {
	if a.spread == 0 {
		return roundUp(n, block)
	}
	low := float64(n) * (1 - a.spread) / float64(block)
	high := float64(n) * (1 + a.spread) / float64(block)
	return int(math.Round(float64(block) * (ceilings(high) - ceilings(low)) / (high - low)))
}

// ceilings is the integral of the next whole number, from 0 on.
func ceilings(x float64) float64 {
	whole := math.Floor(x)
	return whole*(whole+1)/2 + (x-whole)*(whole+1)
}

// btrfsAccuracy: without force one unit that gains too little keeps a whole file from being
// compressed, which an estimate may get wrong.
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
	case "zstd": // ZFS has an older one than ours
		return accuracy{factor: 1, most: 0.02}
	}
	return exact
}

// goZstdError is of Go's zstd in place of libzstd: 10 % at level 15, 7 % at 9, 4 % below.
const goZstdError = 0.12
