package policy

import "testing"

func TestAllocSize(t *testing.T) {
	classes := []int{
		8, 16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024,
		1280, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384,
		20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536, 81920, 98304, 114688, 131072, 163840,
	}
	for i, class := range classes {
		if got := allocSize(class); got != class {
			t.Errorf("allocSize(%d) = %d", class, got)
		}
		if i+1 < len(classes) && allocSize(class+1) != classes[i+1] {
			t.Errorf("allocSize(%d) = %d, want %d", class+1, allocSize(class+1), classes[i+1])
		}
	}
	if allocSize(0) != 8 {
		t.Error("nothing takes nothing")
	}
}

func TestWorth(t *testing.T) {
	p := mustNew(t, Options{Rules: []Rule{{Setting: zstd3}, {Setting: zstd3, MinGain: AnyGain}, {Setting: zstd3, MinGain: 0.5}}})
	tenth, least, half := p.Rules()[0], p.Rules()[1], p.Rules()[2]
	for _, c := range []struct {
		r           *Rule
		t           Type
		raw, sealed int
		want        bool
	}{
		{least, String, 124, 109, false}, // one class: 128
		{least, String, 124, 108, true},  // 128 -> 112
		{tenth, String, 124, 108, true},  // 144 -> 128: 11.1 %
		{tenth, String, 108, 92, true},   // 128 -> 112
		{half, String, 1000, 500, false}, // 1040 -> 528: 49 %
		{half, String, 1000, 436, true},
		{tenth, String, 100, 100, false},
		{tenth, String, 100, 200, false},
		{tenth, Hash, 1000, 100, true},
		{least, Hash, 108, 93, false}, // a hashtable in both cases: 112
		{tenth, Hash, 64, 60, false},  // a listpack: 67 -> 62
		{tenth, Hash, 64, 50, true},
		{tenth, Stream, 100, 92, false},
		{tenth, Stream, 100, 80, true},
	} {
		if got := c.r.SavesEnough(c.t, c.raw, c.sealed); got != c.want || c.r.SavesEnoughFunc(c.t)(c.raw, c.sealed) != got {
			before, after := Cost(c.t, c.raw, c.sealed)
			t.Errorf("Worth(%s, %d, %d) = %v at %v (%d -> %d)", c.t, c.raw, c.sealed, got, c.r.MinGain, before, after)
		}
	}
}
