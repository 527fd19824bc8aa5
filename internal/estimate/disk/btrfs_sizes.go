package disk

// Sizes of the parts into which btrfs splits files.
const (
	btrfsUnit   = 128 << 10 // compressed together
	btrfsChunk  = 512 << 10 // its rest is raw when a unit gains nothing
	btrfsBlock  = 4096
	btrfsInline = 2048 // maximum size of a small file stored in the tree
)

// gaveUp reports whether btrfs gives up: after each page it checks if output exceeds input.
func gaveUp(in, out int) bool { return in > 2*btrfsBlock && in < out }

func roundUp(n, to int) int { return (n + to - 1) / to * to }
