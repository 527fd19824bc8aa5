package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/tinylib/msgp/msgp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/cinch-layer/cinch/bench/corpora"
)

// Converts JSON documents to other formats. A tree keeps the order of keys: any is nil, bool, string,
// json.Number, []any or object.

type object []field

type field struct {
	key   string
	value any
}

type encoder interface {
	append(dst []byte, v any) []byte
}

// encoded returns a loader that converts another loader's records to another format.
func encoded(from func(string) ([]corpora.Record, error), newEncoder func() encoder) func(string) ([]corpora.Record, error) {
	return func(cache string) ([]corpora.Record, error) {
		records, err := from(cache)
		e := newEncoder()
		for i := range records {
			d := json.NewDecoder(bytes.NewReader(records[i].Value))
			d.UseNumber()
			v, err := tree(d)
			if err != nil {
				return nil, err
			}
			records[i].Value = e.append(nil, v)
		}
		return records, err
	}
}

// tree parses one value.
func tree(d *json.Decoder) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		return members(d)
	case json.Delim('['):
		return elements(d)
	}
	return t, nil
}

func members(d *json.Decoder) (any, error) {
	o := object{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		v, err := tree(d)
		if err != nil {
			return nil, err
		}
		o = append(o, field{key.(string), v})
	}
	_, err := d.Token()
	return o, err
}

func elements(d *json.Decoder) (any, error) {
	list := []any{}
	for d.More() {
		v, err := tree(d)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := d.Token()
	return list, err
}

// number returns v as an integer if it is one, or else as a float.
func number(v json.Number) (i int64, f float64, whole bool) {
	i, err := strconv.ParseInt(v.String(), 10, 64)
	if err == nil {
		return i, 0, true
	}
	f, _ = v.Float64()
	return 0, f, false
}

// php encodes documents as arrays, in PHP's serialize format.
type php struct{}

func (p php) append(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "N;"...)
	case bool:
		if v {
			return append(dst, "b:1;"...)
		}
		return append(dst, "b:0;"...)
	case string:
		return fmt.Appendf(dst, "s:%d:%q;", len(v), rawString(v))
	case json.Number:
		if i, f, whole := number(v); !whole {
			return fmt.Appendf(dst, "d:%v;", f)
		} else {
			return fmt.Appendf(dst, "i:%d;", i)
		}
	case []any:
		dst = fmt.Appendf(dst, "a:%d:{", len(v))
		for i, e := range v {
			dst = p.append(fmt.Appendf(dst, "i:%d;", i), e)
		}
		return append(dst, '}')
	case object:
		dst = fmt.Appendf(dst, "a:%d:{", len(v))
		for _, f := range v {
			dst = p.append(p.append(dst, f.key), f.value)
		}
		return append(dst, '}')
	}
	panic(fmt.Sprintf("%T in JSON", v))
}

// rawString formats with %q as itself between quotes, without escapes, as PHP's serialize does.
type rawString string

// Format implements fmt.Formatter.
func (s rawString) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(`"` + string(s) + `"`)) }

type messagePack struct{}

func (m messagePack) append(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return msgp.AppendNil(dst)
	case bool:
		return msgp.AppendBool(dst, v)
	case string:
		return msgp.AppendString(dst, v)
	case json.Number:
		if i, f, whole := number(v); !whole {
			return msgp.AppendFloat64(dst, f)
		} else {
			return msgp.AppendInt64(dst, i)
		}
	case []any:
		dst = msgp.AppendArrayHeader(dst, uint32(len(v)))
		for _, e := range v {
			dst = m.append(dst, e)
		}
		return dst
	case object:
		dst = msgp.AppendMapHeader(dst, uint32(len(v)))
		for _, f := range v {
			dst = m.append(msgp.AppendString(dst, f.key), f.value)
		}
		return dst
	}
	panic(fmt.Sprintf("%T in JSON", v))
}

// protobuf writes messages with a schema derived from the documents: each path of keys is a field, numbered
// in order of first occurrence.
type protobuf struct {
	fields map[string]int // by path
	next   map[string]int // number of fields below a path
}

func (p *protobuf) append(dst []byte, v any) []byte { return p.message(dst, "", v) }

func (p *protobuf) message(dst []byte, path string, v any) []byte {
	o, ok := v.(object)
	if !ok {
		return p.field(dst, 1, path, v)
	}
	for _, f := range o {
		at := path + "/" + f.key
		if p.fields[at] == 0 {
			p.next[path]++
			p.fields[at] = p.next[path]
		}
		dst = p.field(dst, protowire.Number(p.fields[at]), at, f.value)
	}
	return dst
}

func (p *protobuf) field(dst []byte, n protowire.Number, path string, v any) []byte {
	switch v := v.(type) {
	case nil:
		return dst
	case bool:
		return protowire.AppendVarint(protowire.AppendTag(dst, n, protowire.VarintType), protowire.EncodeBool(v))
	case string:
		return protowire.AppendString(protowire.AppendTag(dst, n, protowire.BytesType), v)
	case json.Number:
		if i, f, whole := number(v); !whole {
			return protowire.AppendFixed64(protowire.AppendTag(dst, n, protowire.Fixed64Type), math.Float64bits(f))
		} else {
			return protowire.AppendVarint(protowire.AppendTag(dst, n, protowire.VarintType), protowire.EncodeZigZag(i))
		}
	case []any:
		for _, e := range v {
			if _, nested := e.([]any); nested {
				e = object{{"list", e}}
			}
			dst = p.field(dst, n, path, e)
		}
		return dst
	}
	return protowire.AppendBytes(protowire.AppendTag(dst, n, protowire.BytesType), p.message(nil, path, v))
}
