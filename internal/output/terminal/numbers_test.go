package terminal

import "testing"

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 17: "17 B", 999: "999 B", 1000: "0.98 KiB", 1023: "1.00 KiB", 1024: "1.00 KiB", 1290: "1.26 KiB", -1290: "-1.26 KiB",
		10229: "9.99 KiB", 10239: "10.0 KiB", 102348: "99.9 KiB", 102400: "100 KiB", 1023487: "999 KiB", 1023489: "0.98 MiB", 1 << 20: "1.00 MiB",
		-343 << 30: "-343 GiB", 5 << 40: "5.00 TiB", 1 << 62: "4096 PiB",
	} {
		if got := Size(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestDollars(t *testing.T) {
	for d, want := range map[float64]string{
		0: "$0", 1e-6: "$0", -1e-6: "$0", 0.0004: "$0", -0.0004: "$0", 0.0005: "$0.001", 0.0123: "$0.012", 0.0994: "$0.099", 0.0996: "$0.10",
		1: "$1.00", -3: "-$3.00", 999.99: "$999.99", 999.996: "$1,000", 12340.4: "$12,340", 1234567: "$1,234,567", -1000: "-$1,000",
	} {
		if got := Dollars(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestCores(t *testing.T) {
	for c, want := range map[float64]string{0: "0", 9.73e-06: "<0.001", 0.0123: "0.012", 0.1: "0.10", 3.249: "3.25", 64: "64.0", 128.4: "128"} {
		if got := Cores(c); got != want {
			t.Errorf("%v: %s, want %s", c, got, want)
		}
	}
}
