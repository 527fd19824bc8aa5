package disk

// btrfs cuts files so.
const (
	btrfsUnit   = 128 << 10 // compressed together
	btrfsChunk  = 512 << 10 // whose rest is raw when a unit gains nothing
	btrfsBlock  = 4096
	btrfsInline = 2048 // most bytes of a small file that are held in the tree
)

// gaveUp: behind each page btrfs looks whether more is out than in.
func gaveUp(in, out int) bool { return in > 2*btrfsBlock && in < out }

func roundUp(n, to int) int { return (n + to - 1) / to * to }
