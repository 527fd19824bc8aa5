package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"

	"github.com/cinch-layer/cinch/bench/grpc/otlp"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/codec/libzstd"
	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/remotewrite"
)

// Compares cinch-proto with other compressors on the data that it was tuned on, on OTLP, which it was not
// tuned on, and on data that it can't help.

const visits = 4000 // to the shop whose telemetry is recorded

func measureProto(ctx context.Context, o options, c *remotewrite.Corpus) error {
	runtime.LockOSThread() // only the CPU time of this thread counts
	now = threadTime
	recorded, err := otlp.Record(ctx, visits)
	if err != nil {
		return err
	}
	all, err := protoContenders(o.only)
	if err != nil {
		return err
	}
	r := report{payloads: append(payloadsOf(c),
		payload{"traces", "OTLP, the SDK's batches", recorded.Traces},
		payload{"metrics", "OTLP, the SDK's batches", recorded.Metrics},
		payload{"logs", "OTLP, the SDK's batches", recorded.Logs})}
	odd := oddPayloads(c, recorded)
	if o.of != "" {
		if r.payloads, err = payloadsNamed(r.payloads, o.of); err != nil {
			return err
		}
		odd = nil
	}
	for _, p := range r.payloads {
		for _, contender := range all {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			result, err := measure(contender, all[0], p, o)
			if err != nil {
				return err
			}
			r.results = append(r.results, result)
			fmt.Fprintf(os.Stderr, "%-8s %-28s ratio %6.2f  CPU %5.2f [%.2f %.2f] %9v/MB\n", p.name, contender.name,
				float64(result.rawBytes)/float64(result.packedBytes), result.cpu, result.spread[0], result.spread[1], result.perMB)
		}
	}
	worst, err := worstOf(append(slices.Clone(r.payloads), odd...))
	if err != nil {
		return err
	}
	return r.writeProto(o, worst)
}

func payloadsNamed(all []payload, pattern string) ([]payload, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(p payload) bool { return !re.MatchString(p.name) }), nil
}

func protoContenders(pattern string) ([]contender, error) {
	all := []contender{{name: reference, compressor: newMimirS2()}}
	set := grpccodec.NewSet(grpccodec.Options{})
	for _, name := range []string{"zstd", "cinch-proto"} {
		c, err := set.Compressor(name)
		if err != nil {
			return nil, err
		}
		all = append(all, contender{name: "cinch " + name, compressor: c})
	}
	if lib, ok := libzstd.New(); ok {
		set := grpccodec.NewSet(grpccodec.Options{Zstd: lib})
		for _, name := range []string{"zstd", "cinch-proto"} {
			all = append(all, contender{name: name + ", whole, libzstd", whole: &wholeMessages{set, name}})
		}
	}
	if pattern == "" {
		return all, nil
	}
	if _, err := regexp.Compile(pattern); err != nil {
		return nil, err
	}
	return matching(all, pattern)
}

// oddPayloads returns payloads that columns don't help.
func oddPayloads(c *remotewrite.Corpus, recorded otlp.Requests) []payload {
	rng := rand.New(rand.NewPCG(1, 2))
	field := func(b []byte, content []byte) []byte {
		return append(binary.AppendUvarint(append(b, 1<<3|2), uint64(len(content))), content...)
	}
	var jsons, noise, pictures, texts [][]byte
	for n := range 60 {
		var document, many []byte
		for range 1 + n*n/4 {
			event, _ := json.Marshal(map[string]any{"id": rng.Uint32(), "type": []string{"view", "cart", "order"}[rng.IntN(3)], "user": rng.IntN(500), "path": fmt.Sprintf("/products/%d", rng.IntN(300)), "ms": rng.ExpFloat64() * 30, "ok": rng.IntN(9) > 0})
			document = append(append(document, event...), '\n')
			many = field(many, event)
		}
		jsons = append(jsons, field(nil, document), many)
		b := make([]byte, 1+n*n*20)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		noise = append(noise, b, field(nil, b), field(field(field(nil, b[:len(b)/2]), b), b))
		pictures = append(pictures, field(nil, picture(rng, 8+n*4, true)), field(nil, picture(rng, 8+n*4, false)))
		texts = append(texts, []byte(fmt.Sprint(recorded.Traces[0][:min(n*30, len(recorded.Traces[0]))])), bytes.Repeat([]byte("one line as all others\n"), n*n))
	}
	one := append(c.Scraped(1, 400), c.Shuffled(5, 100)...)
	return []payload{
		{"json", "JSON in one field, and an event a field", jsons},
		{"noise", "random bytes, bare and in fields", noise},
		{"pictures", "PNG and JPEG in a field", pictures},
		{"text", "numbers as text, and one line repeated", texts},
		{"small", "requests of one and of five series", one},
	}
}

func picture(rng *rand.Rand, n int, lossless bool) []byte {
	m := image.NewRGBA(image.Rect(0, 0, n, n))
	for i := range m.Pix {
		m.Pix[i] = byte(i/n) + byte(rng.IntN(9))
	}
	m.Set(0, 0, color.White)
	var b bytes.Buffer
	if lossless {
		_ = png.Encode(&b, m)
	} else {
		_ = jpeg.Encode(&b, m, nil)
	}
	return b.Bytes()
}

// excess compares the lengths of messages by cinch-proto with those by the general codec alone.
type excess struct {
	payload       payload
	zstd, proto   int     // bytes of all
	worst         float64 // largest relative growth of one message of 100 bytes or more
	worstBytes    int     // largest growth, in bytes, of any message
	plain, longer int     // messages that cinch-proto left whole; messages that are longer
}

// worstOf compares all messages, one by one.
func worstOf(all []payload) ([]excess, error) {
	set := grpccodec.NewSet(grpccodec.Options{})
	var out []excess
	var a, b []byte
	for _, p := range all {
		x := excess{payload: p}
		for _, m := range p.messages {
			var err error
			if a, err = set.AppendCompress(a[:0], m, "zstd"); err != nil {
				return nil, err
			}
			if b, err = set.AppendCompress(b[:0], m, "cinch-proto"); err != nil {
				return nil, err
			}
			x.zstd, x.proto = x.zstd+len(a), x.proto+len(b)
			if b[0] == 0x10 {
				x.plain++
			}
			if more := len(b) - len(a); more > 0 {
				x.longer++
				x.worstBytes = max(x.worstBytes, more)
				if len(a) >= 100 {
					x.worst = max(x.worst, float64(more)/float64(len(a)))
				}
			}
		}
		out = append(out, x)
	}
	return out, nil
}

func (r report) writeProto(o options, all []excess) error {
	var t rig.Table
	fmt.Fprintf(&t, "%s, %d cores, %s.\n\n", cpuModel(), runtime.NumCPU(), runtime.Version())
	for _, p := range r.payloads {
		r.table(&t, p)
	}
	if err := floors(&t, all); err != nil {
		return err
	}
	t.WriteString("### Beside zstd alone, message by message\n\n")
	t.Row("payload", "messages", "bytes against zstd", "left whole", "longer than with zstd", "at most, bytes", "at most, of 100 bytes and more")
	t.Rule(7)
	rows := [][]string{{"payload", "codec", "raw_bytes", "bytes"}}
	for _, x := range all {
		t.Row(x.payload.name, strconv.Itoa(len(x.payload.messages)), fmt.Sprintf("%+.1f %%", 100*(float64(x.proto)/float64(x.zstd)-1)),
			strconv.Itoa(x.plain), strconv.Itoa(x.longer), strconv.Itoa(x.worstBytes), fmt.Sprintf("%.2f %%", 100*x.worst))
		raw := strconv.Itoa(x.payload.bytes())
		rows = append(rows, []string{x.payload.name, "zstd", raw, strconv.Itoa(x.zstd)}, []string{x.payload.name, "cinch-proto", raw, strconv.Itoa(x.proto)})
	}
	t.WriteString("\nPayloads beyond those above: ")
	for _, x := range all[len(r.payloads):] {
		fmt.Fprintf(&t, "*%s*, %s; ", x.payload.name, x.payload.what)
	}
	t.WriteString("made by `bench/grpc/proto.go`.\n\n")
	fmt.Print(t.String())
	if o.results == "" || o.only != "" || o.of != "" {
		return nil
	}
	if err := rig.WriteCSV(filepath.Join(o.results, "proto.csv"), rows); err != nil {
		return err
	}
	return rig.ReplacePart(filepath.Join(o.results, "proto.md"), "tables", t.String())
}
