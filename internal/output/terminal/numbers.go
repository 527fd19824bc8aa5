package terminal

import (
	"fmt"
	"math"
	"strings"
)

// Numbers for people have three digits and binary units: KiB, MiB, GiB (powers of 1024). Documents for
// programs have bytes, seconds and dollars in full.

// Size formats bytes: "17 B", "1.25 KiB", "-343 GiB".
func Size(n int64) string {
	v, unit := SizeUnit(float64(n))
	if unit == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return threeDigits(float64(n)/v) + " " + unit
}

// SizeUnit returns the unit in which Size formats that many bytes, and its size in bytes. Axes of plots share
// one unit.
func SizeUnit(bytes float64) (scale float64, unit string) {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	i := 0
	for scale = 1; math.Abs(bytes)/scale >= 999.5 && i < len(units)-1; i++ {
		scale *= 1024
	}
	return scale, units[i]
}

// Dollars formats US dollars: "$0.012", "$9.73", "$12,340", "-$0.25". Less than a tenth of a cent is "$0".
func Dollars(d float64) string {
	size, sign := math.Abs(d), ""
	if d < 0 {
		sign = "-"
	}
	switch {
	case size < 0.0005:
		return "$0"
	case size < 0.0995:
		return fmt.Sprintf("%s$%.3f", sign, size)
	case size < 999.995:
		return fmt.Sprintf("%s$%.2f", sign, size)
	}
	digits := fmt.Sprintf("%.0f", size)
	var groups []string
	for len(digits) > 3 {
		groups = append([]string{digits[len(digits)-3:]}, groups...)
		digits = digits[:len(digits)-3]
	}
	return sign + "$" + strings.Join(append([]string{digits}, groups...), ",")
}

// Cores formats CPU seconds per second: "0.012", "3.25"; below a thousandth it is "<0.001".
func Cores(c float64) string {
	switch {
	case c == 0:
		return "0"
	case c < 0.0005:
		return "<0.001"
	case c < 0.0995:
		return fmt.Sprintf("%.3f", c)
	}
	return threeDigits(c)
}

// Ratio formats the ratio of bytes before compression to bytes after it: "3.25x", "41.7x", "128x".
func Ratio(r float64) string { return threeDigits(r) + "x" }

// threeDigits formats a number below a thousand.
func threeDigits(v float64) string {
	switch a := math.Abs(v); {
	case a < 9.995:
		return fmt.Sprintf("%.2f", v)
	case a < 99.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}
