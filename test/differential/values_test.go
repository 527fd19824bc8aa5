package differential

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
)

// values generates the values that clients write.
type values struct {
	r      *rand.Rand
	sealer *envelope.Sealer
}

// most is the length of the longest value in bytes; few values come near it.
const most = 2 << 20

// value returns a value of a random kind, mostly short and never longer than limit.
func (v *values) value(limit int) []byte {
	switch p := v.r.IntN(100); {
	case p < 12:
		return v.number()
	case p < 16:
		return v.hyll(limit)
	case p < 28:
		return v.magic(limit)
	case p < 33:
		return v.longNumber()
	case p < 45:
		return v.noise(v.size(limit))
	}
	return v.text(v.size(limit))
}

// size returns a length: most are below 200 bytes, some at boundaries of listpacks, buffers or rules, very
// few huge.
func (v *values) size(limit int) int {
	n := 0
	switch p := v.r.IntN(1000); {
	case p < 40:
		n = 0
	case p < 400:
		n = 1 + v.r.IntN(200)
	case p < 650:
		edges := []int{20, 21, 44, 45, 63, 64, 65, 127, 128, 255, 4095, 4096, 8191, 8192, 16383, 16384, 16385}
		n = edges[v.r.IntN(len(edges))]
	case p < 940:
		n = 100 + v.r.IntN(4000)
	case p < 960: // the buffer holds the request's header too
		n = bufferBytes - 64 + v.r.IntN(80)
	case p < 985:
		n = 4000 + v.r.IntN(40_000)
	case p < 997:
		n = 30_000 + v.r.IntN(200_000)
	default:
		n = v.r.IntN(most)
	}
	return min(n, limit)
}

// text returns compressible text that looks like JSON.
func (v *values) text(n int) []byte {
	words := []string{"menu", "price", "name", "available", "true", "null", "restaurant", "items", "0.25", "quantity"}
	b := make([]byte, 0, n+64)
	for len(b) < n {
		b = fmt.Appendf(b, `{"%s":"%s","id":%d},`, words[v.r.IntN(len(words))], words[v.r.IntN(len(words))], v.r.IntN(1000))
	}
	return b[:n]
}

func (v *values) noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(v.r.Uint32())
	}
	return b
}

// number returns an integer of any length, sometimes out of range or not canonical.
func (v *values) number() []byte {
	switch v.r.IntN(6) {
	case 0:
		return strconv.AppendInt(nil, v.r.Int64N(100), 10)
	case 1:
		return strconv.AppendInt(nil, -v.r.Int64N(1<<62), 10)
	case 2:
		return []byte("9223372036854775807")
	case 3:
		return []byte("-9223372036854775808")
	case 4:
		return []byte(strings.Repeat("9", 1+v.r.IntN(30)))
	}
	return []byte([]string{" 1", "01", "+1", "1 ", "-0", "1e3", "0x10", "3.0"}[v.r.IntN(8)])
}

// longNumber returns a float that INCRBYFLOAT accepts, of up to some hundred digits.
func (v *values) longNumber() []byte {
	switch v.r.IntN(3) {
	case 0:
		return []byte("0." + strings.Repeat("0", v.r.IntN(200)) + "5")
	case 1:
		return []byte(strings.Repeat("0", 1+v.r.IntN(300)) + strconv.Itoa(v.r.IntN(1000)))
	}
	return []byte(strconv.Itoa(v.r.IntN(1000)) + "." + strings.Repeat("12", v.r.IntN(120)) + "0")
}

func (v *values) hyll(limit int) []byte {
	return append([]byte("HYLL"), v.noise(min(limit, v.r.IntN(200)))...)
}

// magic returns bytes that begin like an envelope: an envelope, a broken one, or only the magic.
func (v *values) magic(limit int) []byte {
	switch v.r.IntN(6) {
	case 0:
		return []byte(envelope.Magic)
	case 1:
		return append([]byte(envelope.Magic), v.noise(v.r.IntN(20))...)
	case 2:
		return []byte(envelope.Magic)[:1+v.r.IntN(2)]
	case 3:
		env := v.envelope(limit)
		return env[:v.r.IntN(len(env)+1)]
	case 4:
		return append([]byte(envelope.Magic), v.text(v.size(limit))...)
	}
	return v.envelope(limit)
}

// envelope returns an envelope as Cinch would store it for some value.
func (v *values) envelope(limit int) []byte {
	settings := []codec.Setting{
		{Codec: codec.Raw}, {Codec: codec.LZ4}, {Codec: codec.Zstd, Level: 3}, {Codec: codec.S2}, {Codec: codec.Snappy},
	}
	inner := v.text(v.size(min(limit, 20_000)))
	if v.r.IntN(4) == 0 {
		inner = v.sealer.Escape(nil, inner)
	}
	always := func(int, int) bool { return true }
	return v.sealer.Seal(nil, inner, settings[v.r.IntN(len(settings))], always)
}
