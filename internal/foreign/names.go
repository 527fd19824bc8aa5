package foreign

import (
	"maps"
	"slices"
)

// Known reports that this version reads and writes the format.
func (f Format) Known() bool { return f > 0 && int(f) < len(names) }

// Names are those that [Named] knows: libraries first, then single formats.
func Names() []string {
	return append(slices.Sorted(maps.Keys(families)), names[GlideZstd:]...)
}
