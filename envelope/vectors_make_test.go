package envelope

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/libzstd"
)

// recipe is a vector and the function that makes its stored bytes.
type recipe struct {
	vector
	make func(t *testing.T) []byte
}

// kitchen collects recipes.
type kitchen struct {
	t       *testing.T
	recipes []recipe
	dicts   map[string]*codec.Dict // by file
}

// makeVectors lists all vectors. It only runs with -update.
func makeVectors(t *testing.T) []recipe {
	t.Helper()
	if len(engines()) != 2 {
		t.Fatal("vectors are made with both zstd implementations: cgo is needed")
	}
	k := &kitchen{t: t, dicts: map[string]*codec.Dict{}}
	k.dictionaries()
	k.plain()
	k.escaped()
	k.everyCodec()
	k.windowed()
	k.lengths()
	k.withDictionaries()
	k.extended()
	k.refused()
	k.forged()
	return k.recipes
}

func (k *kitchen) dictionaries() {
	samples := make([][]byte, 2000)
	for i := range samples {
		samples[i] = order(1000 + i)
	}
	trained, err := libzstd.Train(samples, 4<<10)
	if err != nil {
		k.t.Fatal(err)
	}
	k.addDict("dictionaries/trained.dict", trained)
	k.addDict("dictionaries/raw.dict", orders(4<<10))
}

// addDict adds a dictionary: the existing file if there is one, otherwise content.
func (k *kitchen) addDict(file string, content []byte) {
	if existing := existingVectorFile(file); existing != nil {
		content = existing
	}
	writeNew(k.t, file, content)
	for _, d := range newDictSet(k.t, content) {
		k.dicts[file] = d
	}
}

// opens adds a vector that opens to value, which is stored in a file of that name.
func (k *kitchen) opens(name, valueFile string, value []byte, dictFile string, make func() []byte) {
	file := "values/" + valueFile
	writeNew(k.t, file, value)
	v := vector{Name: name, Stored: "stored/" + name, Value: file, Dictionary: dictFile}
	k.recipes = append(k.recipes, recipe{v, func(*testing.T) []byte { return make() }})
}

// refuses adds a vector that must give an error of the class.
func (k *kitchen) refuses(name, class string, stored []byte, change func(*vector)) {
	v := vector{Name: "refuse-" + name, Stored: "stored/refuse-" + name, Error: class}
	if change != nil {
		change(&v)
	}
	k.recipes = append(k.recipes, recipe{v, func(*testing.T) []byte { return stored }})
}

// envelope makes an envelope of value, even if that is longer than value.
func (k *kitchen) envelope(h Header, engine string, st codec.Setting, value []byte, d *codec.Dict) []byte {
	h.Version, h.Codec, h.RawLen = Version, st.Codec, len(value)
	if d != nil {
		st.Dict, h.HasDict, h.Dict = d.Number(), true, d.Number()
	} else {
		h.Checksum = crc32.ChecksumIEEE(value)
	}
	if st.Codec == codec.Raw {
		return append(h.Append(nil), value...)
	}
	out, err := engines()[engine].Compress(h.Append(nil), value, st, d)
	if err != nil {
		k.t.Fatal(err)
	}
	putTag(d, out)
	return out
}

func (k *kitchen) plain() {
	for name, value := range map[string][]byte{"empty": {}, "text": []byte("plain text"), "magic-prefix": []byte(Magic[:2])} {
		k.opens("plain-"+name, "plain-"+name, value, "", func() []byte { return value })
	}
}

func (k *kitchen) escaped() {
	magicText := []byte(Magic + "a value that happens to begin with the magic")
	sealed := k.envelope(Header{}, "go", codec.Setting{Codec: codec.LZ4}, orders(300), nil)
	for name, value := range map[string][]byte{"empty": {}, "one": []byte("a"), "magic": []byte(Magic), "magic-text": magicText, "envelope": sealed} {
		k.opens("escaped-"+name, "escaped-"+name, value, "", func() []byte { return k.envelope(Header{}, "go", codec.Setting{}, value, nil) })
	}
}

// engineSettings returns every codec at several levels, zstd with both implementations.
func engineSettings() map[string]codec.Setting {
	all := map[string]codec.Setting{}
	for id, levels := range map[codec.ID][]int{
		codec.Raw: {0}, codec.Snappy: {1, 3}, codec.S2: {1, 2, 3}, codec.MinLZ: {1, 2, 3},
		codec.LZ4: {1, 9}, codec.Zstd: {1, 3, 19}, codec.Zlib: {1, 9}, codec.Gzip: {1, 9},
	} {
		for _, level := range levels {
			all["go"+" "+codec.Setting{Codec: id, Level: level}.String()] = codec.Setting{Codec: id, Level: level}
		}
	}
	for _, level := range []int{1, 3, 19} {
		st := codec.Setting{Codec: codec.Zstd, Level: level}
		all["libzstd"+" "+st.String()] = st
	}
	return all
}

func (k *kitchen) everyCodec() {
	far := append(append(noise(200), make([]byte, 70_000)...), noise(200)...) // an offset over 64 KiB
	values := map[string][]byte{
		"empty": {}, "one": []byte("a"), "order.json": order(1), "noise": noise(300), "far": far,
		"zeros-100000": make([]byte, 100_000), "orders": orders(12_000),
	}
	for key, st := range engineSettings() {
		for file, value := range values {
			if st.Codec == codec.Raw && len(value) > 1000 {
				continue
			}
			engine, name := engineName(key, st)
			k.opens(name+"-"+file, file, value, "", func() []byte { return k.envelope(Header{}, engine, st, value, nil) })
		}
	}
}

func engineName(key string, st codec.Setting) (engine, name string) {
	engine = "go"
	if key[0] == 'l' {
		engine = "libzstd"
	}
	name = st.String()
	if st.Codec == codec.Zstd {
		name += "-" + engine
	}
	return engine, name
}

// windowed adds zstd frames whose header has a window instead of the content's size. Cinch's encoders don't
// write them, but others may.
func (k *kitchen) windowed() {
	for _, n := range []int{5000, 200_000} {
		value := bytes.Repeat(orders(5000), n/5000)
		k.opens(fmt.Sprintf("zstd-windowed-%d", n), fmt.Sprintf("orders-x%d", n/5000), value, "", func() []byte {
			b := k.envelope(Header{}, "libzstd", codec.Setting{Codec: codec.Zstd}, value, nil)
			h, err := ParseHeader(b)
			if err != nil {
				k.t.Fatal(err)
			}
			sizeLen := 1 << (b[h.Len] >> 6) // single segment: 1, 2 or 4 bytes
			const window1MiB = 10 << 3
			return append(append(bytes.Clone(b[:h.Len]), 0, window1MiB), b[h.Len+1+sizeLen:]...)
		})
	}
}

// lengths adds lengths around each step of the varint.
func (k *kitchen) lengths() {
	for _, n := range []int{127, 128, 129, 16383, 16384, 16385} {
		file, value := fmt.Sprintf("orders-%d", n), orders(n)
		for id := codec.Snappy; id.Known(); id++ {
			k.opens(fmt.Sprintf("length-%d-%s", n, id), file, value, "", func() []byte {
				return k.envelope(Header{}, "go", codec.Setting{Codec: id}, value, nil)
			})
		}
	}
}

func (k *kitchen) withDictionaries() {
	values := map[string][]byte{"order.json": order(1), "orders": orders(12_000), "noise": noise(300)}
	for engine := range engines() {
		for short, file := range map[string]string{"trained": "dictionaries/trained.dict", "raw": "dictionaries/raw.dict"} {
			for _, level := range []int{1, 3, 19} {
				for valueFile, value := range values {
					st := codec.Setting{Codec: codec.Zstd, Level: level}
					k.opens(fmt.Sprintf("dict-%s-%s-%s-%s", short, st, engine, valueFile), valueFile, value, file, func() []byte {
						return k.envelope(Header{}, engine, st, value, k.dicts[file])
					})
				}
			}
		}
	}
}

// extended adds envelopes with extension words, which a reader skips whatever they hold.
func (k *kitchen) extended() {
	d := k.dicts["dictionaries/trained.dict"]
	for _, words := range []int{1, 2, 15} {
		ext := bytes.Repeat([]byte("\xFF\x00wo"), words)
		for _, id := range []codec.ID{codec.Raw, codec.LZ4, codec.Zstd} {
			st := codec.Setting{Codec: id}
			k.opens(fmt.Sprintf("extension-%d-%s", words, id), "order.json", order(1), "", func() []byte {
				return k.envelope(Header{Ext: ext}, "go", st, order(1), nil)
			})
		}
		k.opens(fmt.Sprintf("extension-%d-dict", words), "order.json", order(1), "dictionaries/trained.dict", func() []byte {
			return k.envelope(Header{Ext: ext}, "go", codec.Setting{Codec: codec.Zstd}, order(1), d)
		})
	}
}

func (k *kitchen) refused() {
	k.refusedHeaders()
	k.refusedPayloads()
	trained := k.dicts["dictionaries/trained.dict"]
	needs := k.envelope(Header{}, "go", codec.Setting{Codec: codec.Zstd}, order(1), trained)
	k.refuses("dictionary-not-given", "dictionary missing", needs, nil)
	k.refuses("other-dictionary-given", "dictionary missing", needs, func(v *vector) { v.Dictionary = "dictionaries/raw.dict" })
	lz4 := k.envelope(Header{}, "go", codec.Setting{Codec: codec.LZ4}, orders(1000), nil)
	k.refuses("over-max-raw", "too large", lz4, func(v *vector) { v.MaxRaw = 999 })
	for id := codec.ID(8); id < 16; id++ {
		h := Header{Version: Version, Codec: id, RawLen: 3}
		k.refuses(fmt.Sprintf("codec-%d", id), "unknown codec", append(h.Append(nil), "abc"...), nil)
	}
	h := Header{Version: Version, Codec: 8, HasDict: true, Dict: 1, RawLen: longest, Ext: noise(60)}
	k.refuses("codec-8-longest-header", "unknown codec", h.Append(nil), nil)
	for id := codec.Snappy; id.Known(); id++ {
		h := Header{Version: Version, Codec: id, RawLen: longest}
		k.refuses(fmt.Sprintf("32-gib-%s", id), "too large", append(h.Append(nil), "bomb"...), nil)
	}
}

func (k *kitchen) refusedHeaders() {
	const tag = "\x01\x23\x45\x67\x89\xab\xcd\xef"
	rest := "\x03" + string(binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte("abc")))) + "abc"
	for name, c := range map[string]struct{ class, stored string }{
		"version-0":         {"version", Magic + "\x00\x00" + rest},
		"version-2":         {"version", Magic + "\x20\x00" + rest},
		"version-15":        {"version", Magic + "\xF0\x00" + rest},
		"flag-10":           {"reserved", Magic + "\x10\x10" + rest},
		"flag-20":           {"reserved", Magic + "\x10\x20" + rest},
		"flag-40":           {"reserved", Magic + "\x10\x40" + rest},
		"dictionary-raw":    {"reserved", Magic + "\x10\x80\x03" + tag + "\x00\x00\x00\x01abc"},
		"dictionary-lz4":    {"reserved", Magic + "\x14\x80\x03" + tag + "\x00\x00\x00\x01\x30abc"},
		"dictionary-0":      {"header", Magic + "\x15\x80\x03" + tag + "\x00\x00\x00\x00abc"},
		"overlong-length-2": {"header", Magic + "\x10\x00\x83\x00\xc2\x41\x24\x35abc"},
		"overlong-length-5": {"header", Magic + "\x10\x00\x83\x80\x80\x80\x00\xc2\x41\x24\x35abc"},
		"length-of-6":       {"header", Magic + "\x10\x00\x83\x80\x80\x80\x80\x01\xc2\x41\x24\x35abc"},
		"magic-only":        {"truncated", Magic},
		"no-flags":          {"truncated", Magic + "\x10"},
		"no-length":         {"truncated", Magic + "\x10\x00"},
		"half-length":       {"truncated", Magic + "\x10\x00\x83"},
		"half-checksum":     {"truncated", Magic + "\x10\x00\x03\xc2\x41"},
		"half-tag":          {"truncated", Magic + "\x15\x80\x03" + tag[:4]},
		"half-dictionary":   {"truncated", Magic + "\x15\x80\x03" + tag + "\x00\x00"},
		"half-extension":    {"truncated", Magic + "\x10\x02\x03\xc2\x41\x24\x35wordwo"},
	} {
		k.refuses(name, c.class, []byte(c.stored), nil)
	}
}

func (k *kitchen) refusedPayloads() {
	for id := codec.Raw; id.Known(); id++ {
		value := orders(1000)
		good := k.envelope(Header{}, "go", codec.Setting{Codec: id}, value, nil)
		h, err := ParseHeader(good)
		if err != nil {
			k.t.Fatal(err)
		}
		payload := good[h.Len:]
		k.refuses(fmt.Sprintf("cut-%s", id), "payload", good[:len(good)-1], nil)
		k.refuses(fmt.Sprintf("empty-%s", id), "payload", good[:h.Len], nil)
		k.refuses(fmt.Sprintf("longer-%s", id), "payload", append(bytes.Clone(good), 0), nil)
		h.Checksum ^= 1
		k.refuses(fmt.Sprintf("checksum-%s", id), "checksum", append(h.Append(nil), payload...), nil)
		for _, by := range []int{-1, 1} {
			h.RawLen = len(value) + by
			k.refuses(fmt.Sprintf("length%+d-%s", by, id), "payload", append(h.Append(nil), payload...), nil)
		}
	}
	zstd := k.envelope(Header{}, "go", codec.Setting{Codec: codec.Zstd}, orders(1000), nil)
	h, _ := ParseHeader(zstd)
	withMagic := append(append(bytes.Clone(zstd[:h.Len]), "\x28\xb5\x2f\xfd"...), zstd[h.Len:]...)
	k.refuses("zstd-with-magic", "payload", withMagic, nil)
	snappy := k.envelope(Header{}, "go", codec.Setting{Codec: codec.Snappy}, orders(1000), nil)
	snappy[3] = Version<<4 | byte(codec.MinLZ)
	k.refuses("minlz-snappy-fallback", "payload", snappy, nil)
}

// forged adds envelopes that name a dictionary, but whose tag was not computed with it over the whole envelope.
func (k *kitchen) forged() {
	const file, otherFile = "dictionaries/trained.dict", "dictionaries/raw.dict"
	d, other := k.dicts[file], k.dicts[otherFile]
	st := codec.Setting{Codec: codec.Zstd}
	good := k.envelope(Header{Ext: []byte("word")}, "go", st, orders(1000), d)
	h, err := ParseHeader(good)
	if err != nil {
		k.t.Fatal(err)
	}
	changed := func(at int) []byte {
		b := bytes.Clone(good)
		b[at] ^= 1
		return b
	}
	tagged := func(tag [TagLen]byte) []byte {
		b := bytes.Clone(good)
		copy(b[h.tagAt():], tag[:])
		return b
	}
	publicHash := d.Hash()
	for name, stored := range map[string][]byte{
		"raw-length":       changed(5),
		"first-byte":       changed(h.tagAt()),
		"last-byte":        changed(h.tagAt() + TagLen - 1),
		"extension":        changed(h.Len - 1),
		"payload":          changed(len(good) - 1),
		"cut":              good[:len(good)-1],
		"longer":           append(bytes.Clone(good), 0),
		"zero":             tagged([TagLen]byte{}),
		"other-dictionary": tagged(h.tag(other, good)),
		"public-hash":      tagged(hmacTag(publicHash[:], good[:h.tagAt()], good[h.tagAt()+TagLen:])),
		"over-itself":      tagged(d.Tag(good)),
		"payload-only":     tagged(d.Tag(good[h.Len:])),
		"lifted":           tagged(mustParse(k.t, k.envelope(Header{Ext: []byte("word")}, "go", st, orders(1001)[1:], d)).Tag),
	} {
		k.refuses("tag-"+name, "tag", stored, func(v *vector) { v.Dictionary = file })
	}
	k.refuses("checksum-for-tag", "dictionary missing", withChecksum(h, good[h.Len:]), func(v *vector) { v.Dictionary = file })
}

// hmacTag returns a tag computed with a key other than the dictionary's.
func hmacTag(key []byte, parts ...[]byte) (tag [TagLen]byte) {
	mac := hmac.New(sha256.New, key)
	for _, p := range parts {
		mac.Write(p)
	}
	copy(tag[:], mac.Sum(nil))
	return tag
}

func mustParse(t *testing.T, stored []byte) Header {
	t.Helper()
	h, err := ParseHeader(stored)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// withChecksum returns an envelope that has a checksum where its flags announce a tag, so that readers misread the
// bytes after it.
func withChecksum(h Header, payload []byte) []byte {
	b := append([]byte(Magic), h.Version<<4|byte(h.Codec), flagDict)
	b = binary.AppendUvarint(b, uint64(h.RawLen))
	b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(orders(1000)))
	b = binary.BigEndian.AppendUint32(b, h.Dict)
	return append(b, payload...)
}
