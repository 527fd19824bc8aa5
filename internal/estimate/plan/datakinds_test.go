package plan

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/tinylib/msgp/msgp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/cinch-layer/cinch/codec"
)

var words = strings.Fields(`the quick order item table chair lamp noodle soup rice curry grill garlic pepper onion tomato basil
	cheese bread butter honey mint lemon sugar salt smoke river stone cloud forest winter summer spring autumn copper silver golden blue
	green red amber violet about under between people because always company number system program question government night point`)

func prose(r *rand.Rand, n int) string {
	some := make([]string, n)
	for i := range some {
		some[i] = words[int(math.Abs(r.NormFloat64())*15)%len(words)]
	}
	return strings.Join(some, " ")
}

// kinds holds generators of the kinds of data in data sets. Each call returns a different value.
var kinds = map[string]func(r *rand.Rand) []byte{
	"html": func(r *rand.Rand) []byte {
		var b strings.Builder
		b.WriteString("<!doctype html><html><head><meta charset=utf-8><title>" + prose(r, 4) + "</title><link rel=stylesheet href=/static/app.css></head><body>")
		for range 10 + r.IntN(60) {
			fmt.Fprintf(&b, "<div class=\"card card--wide\"><h2>%s</h2><p class=\"text\">%s</p><a class=\"more\" href=\"/item/%d\">more</a></div>\n", prose(r, 3), prose(r, 15+r.IntN(20)), r.IntN(1e6))
		}
		return []byte(b.String() + "</body></html>")
	},
	"session": func(r *rand.Rand) []byte {
		return fmt.Appendf(nil, `{"sid":"%x","user":{"id":%d,"roles":["reader","%s"],"locale":"en_GB"},"cart":[%d,%d],"csrf":"%x","last_seen":%d,"flags":{"beta":%v,"dark":%v}}`,
			noise(r, 16), r.IntN(1e6), words[r.IntN(9)], r.IntN(1e5), r.IntN(1e5), noise(r, 16), 1790000000+r.IntN(1e7), r.IntN(2) > 0, r.IntN(2) > 0)
	},
	"random": func(r *rand.Rand) []byte { return noise(r, 100+r.IntN(900)) },
	"order":  func(r *rand.Rand) []byte { return []byte(order(r)) },
	"tiny-json": func(r *rand.Rand) []byte {
		return fmt.Appendf(nil, `{"user_id":%d,"country":"%s","plan":"%s","active":%v}`, r.IntN(1e6), words[r.IntN(20)], words[r.IntN(5)], r.IntN(2) > 0)
	},
	"document": func(r *rand.Rand) []byte {
		var lines []string
		for range 8 + r.IntN(20) {
			lines = append(lines, fmt.Sprintf(`{"sku":"SKU-%06d","name":%q,"quantity":%d,"price":"%d.%02d"}`, r.IntN(1e6), prose(r, 3), r.IntN(9), r.IntN(99), r.IntN(100)))
		}
		return fmt.Appendf(nil, `{"id":%d,"address":{"street":%q,"city":%q},"lines":[%s]}`, r.IntN(1e9), prose(r, 3), prose(r, 1), strings.Join(lines, ","))
	},
	"menu": func(r *rand.Rand) []byte {
		var items []string
		for range 60 + r.IntN(200) {
			items = append(items, fmt.Sprintf(`{"id":%d,"name":%q,"description":%q,"price":%d.%02d,"available":%v}`, r.IntN(1e9), prose(r, 3), prose(r, 8+r.IntN(12)), r.IntN(40), r.IntN(100), r.IntN(9) > 0))
		}
		return fmt.Appendf(nil, `{"restaurant":%d,"items":[%s]}`, r.IntN(1e6), strings.Join(items, ","))
	},
	"protobuf": func(r *rand.Rand) []byte {
		var b []byte
		for i := range 4 + r.IntN(12) {
			inner := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(r.IntN(1e6)))
			inner = protowire.AppendString(protowire.AppendTag(inner, 2, protowire.BytesType), "http_requests_total/"+words[i])
			inner = protowire.AppendFixed64(protowire.AppendTag(inner, 3, protowire.Fixed64Type), math.Float64bits(float64(r.IntN(1000))/4))
			b = protowire.AppendBytes(protowire.AppendTag(b, 1, protowire.BytesType), inner)
		}
		return b
	},
	"msgpack": func(r *rand.Rand) []byte {
		b := msgp.AppendMapHeader(nil, 6)
		b = msgp.AppendInt(msgp.AppendString(b, "account_id"), r.IntN(1e8))
		b = msgp.AppendString(msgp.AppendString(b, "display_name"), prose(r, 2))
		b = msgp.AppendString(msgp.AppendString(b, "biography"), prose(r, 10+r.IntN(20)))
		b = msgp.AppendFloat64(msgp.AppendString(b, "balance"), float64(r.IntN(1e6))/100)
		b = msgp.AppendBool(msgp.AppendString(b, "verified"), r.IntN(2) > 0)
		return msgp.AppendInt(msgp.AppendString(b, "created_at"), 1700000000+r.IntN(1e8))
	},
	"counter": func(r *rand.Rand) []byte { return fmt.Appendf(nil, "%d", r.IntN(1e9)) },
	"image": func(r *rand.Rand) []byte {
		return append([]byte("\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x01\x00\x48\x00\x48\x00\x00\xff\xdb\x00\x43"), noise(r, 2000+r.IntN(9000))...)
	},
	"log": func(r *rand.Rand) []byte {
		var b strings.Builder
		for range 1 + r.IntN(6) {
			fmt.Fprintf(&b, "2026-11-%02dT%02d:%02d:%02d.%03dZ INFO  [worker-%d] com.example.shop.CheckoutService - %s id=%d took=%dms\n", 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(1000), r.IntN(32), prose(r, 5), r.IntN(1e6), r.IntN(900))
		}
		return []byte(b.String())
	},
	"compressed": func(r *rand.Rand) []byte {
		b, _ := codec.New(codec.Options{}).Compress(nil, []byte(prose(r, 200+r.IntN(300))), codec.Setting{Codec: codec.S2}, nil)
		return b
	},
	"token": func(r *rand.Rand) []byte {
		claims := fmt.Sprintf(`{"iss":"https://login.example.com","sub":"%d","aud":"shop","exp":%d,"scope":"read write"}`, r.IntN(1e9), 1790000000+r.IntN(1e7))
		part := base64.RawURLEncoding.EncodeToString
		return []byte(part([]byte(`{"alg":"RS256","typ":"JWT","kid":"key-2026-11"}`)) + "." + part([]byte(claims)) + "." + part(noise(r, 256)))
	},
	"xml": func(r *rand.Rand) []byte {
		return fmt.Appendf(nil, `<?xml version="1.0" encoding="UTF-8"?><soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Body><GetQuoteResponse><Symbol>%s</Symbol><Price>%d.%02d</Price><Volume>%d</Volume><Comment>%s</Comment></GetQuoteResponse></soap:Body></soap:Envelope>`,
			strings.ToUpper(words[r.IntN(20)]), r.IntN(900), r.IntN(100), r.IntN(1e7), prose(r, 6))
	},
	"csv": func(r *rand.Rand) []byte {
		var b strings.Builder
		for range 20 + r.IntN(80) {
			fmt.Fprintf(&b, "%d,%s,%d.%02d,%s\n", r.IntN(1e6), words[r.IntN(30)], r.IntN(500), r.IntN(100), []string{"open", "paid", "sent"}[r.IntN(3)])
		}
		return []byte(b.String())
	},
	"floats": func(r *rand.Rand) []byte {
		var b []byte
		for range 128 {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(r.Float32()*2-1))
		}
		return b
	},
	"series": func(r *rand.Rand) []byte {
		b, at := []byte(nil), uint64(1790000000000+r.IntN(1e6))
		for range 100 + r.IntN(300) {
			at += 15000 + uint64(r.IntN(3))
			b = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, at), uint64(r.IntN(200)))
		}
		return b
	},
	"prose": func(r *rand.Rand) []byte { return []byte(prose(r, 60+r.IntN(300))) },
	"uuids": func(r *rand.Rand) []byte {
		return fmt.Appendf(nil, "%x,%x,%x,%x", noise(r, 16), noise(r, 16), noise(r, 16), noise(r, 16))
	},
	"pickled": func(r *rand.Rand) []byte { // as Django's sessions: framed, with names before each value
		return fmt.Appendf(nil, "\x80\x04\x95\x9f\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x0d_auth_user_id\x94\x8c\x06%06d\x94\x8c\x12_auth_user_backend\x94\x8c)django.contrib.auth.backends.ModelBackend\x94\x8c\x0f_auth_user_hash\x94\x8c@%x\x94u.", r.IntN(1e6), noise(r, 32))
	},
	"sparse": func(r *rand.Rand) []byte {
		b := bytes.Repeat([]byte{0}, 4096)
		for range 40 {
			b[r.IntN(len(b))] = byte(r.Uint32())
		}
		return b
	},
}
