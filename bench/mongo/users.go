package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The documents are users of a shop, about 345 bytes of BSON each, like those of the published table: names
// from lists, random numbers and identifiers. A user depends on its number alone, so every way sends the same
// ones. No number is used twice, so no measured document was available for learning.

// size is the size of a document in bytes.
const size = 345

var (
	first  = strings.Fields("Ana Bruno Chloe Dmitri Elif Farid Greta Hugo Ines Jonas Kaori Lena Marek Nadia Olga Pedro Quinn Rosa Samir Tove Uma Viktor Wanda Xenia Yusuf Zora Amara Bilal Carla Diego Emil Fatou Gustav Hanna Igor Jana Kofi Lucia Mila Nuno")
	last   = strings.Fields("Almeida Becker Castillo Dubois Eriksen Ferrari Gomez Haddad Ivanov Jansen Kowalski Lindqvist Moreau Novak Okafor Petrov Quist Rossi Schneider Tanaka Ueda Vargas Weber Xu Yilmaz Zhang Abebe Bianchi Costa Demir Engel Fischer Gruber Hansen Ito Jovanovic Keller Lopez Mensah Nowak")
	street = strings.Fields("Acacia Birch Chestnut Dogwood Elder Fir Ginkgo Hazel Juniper Larch Maple Oak Poplar Rowan Spruce Willow Station Harbour Mill Church Castle Garden Bridge Market")
	kind   = strings.Fields("Street Road Avenue Lane Square Way")
	city   = strings.Fields("Lisbon Porto Madrid Zurich Geneva Vienna Prague Warsaw Oslo Stockholm Helsinki Tallinn Riga Vilnius Dublin Cork Leeds York Ghent Liege Lyon Nantes Turin Naples Athens Izmir Cairo Accra Lagos Nairobi")
	domain = strings.Fields("example.com example.org mail.example inbox.example post.example letters.example")
	plan   = strings.Fields("free basic plus business")
	topic  = strings.Fields("garden kitchen books music travel sports photo games tools pets")
)

// user returns the document of a number.
func user(i int) bson.D {
	r := rand.New(rand.NewPCG(uint64(i), 340))
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	given, family := pick(first), pick(last)
	since := time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(r.Int64N(int64(4 * 365 * 24 * time.Hour)))).Truncate(time.Millisecond)
	d := bson.D{
		{Key: "_id", Value: objectID(i)},
		{Key: "name", Value: given + " " + family},
		{Key: "email", Value: fmt.Sprintf("%s.%s%d@%s", strings.ToLower(given), strings.ToLower(family), r.IntN(1000), pick(domain))},
		{Key: "street", Value: fmt.Sprintf("%d %s %s", 1+r.IntN(300), pick(street), pick(kind))},
		{Key: "city", Value: pick(city)},
		{Key: "postcode", Value: fmt.Sprintf("%05d", r.IntN(100000))},
		{Key: "phone", Value: fmt.Sprintf("+%d %09d", 30+r.IntN(60), r.IntN(1e9))},
		{Key: "active", Value: r.IntN(4) > 0},
		{Key: "visits", Value: int64(r.IntN(5000))},
		{Key: "plan", Value: pick(plan)},
		{Key: "since", Value: since},
		{Key: "topics", Value: bson.A{pick(topic), pick(topic)}},
		{Key: "seq", Value: i},
		{Key: "ref", Value: fmt.Sprintf("%08x", r.Uint32())},
	}
	return padded(d)
}

// padded extends a document to size with a note of low entropy.
func padded(d bson.D) bson.D {
	raw, err := bson.Marshal(d)
	if err != nil {
		panic(err) // can't happen: the document is a literal
	}
	const note = "customer since the first shop; delivers to the door; prefers mail "
	room := size - len(raw) - len("\x02note\x00\x00\x00\x00\x00\x00")
	return append(d, bson.E{Key: "note", Value: note[:min(max(room, 0), len(note))]})
}

// objectID returns an id like a driver's: a time, a process, a counter.
func objectID(i int) (id bson.ObjectID) {
	binary.BigEndian.PutUint32(id[:], uint32(1_700_000_000+i/7))
	copy(id[4:9], "\x8f\x21\xd4\x07\xb3")
	binary.BigEndian.PutUint32(id[8:], uint32(i)|0xb3000000)
	return id
}

func users(from, n int) []any {
	docs := make([]any, n)
	for k := range docs {
		docs[k] = user(from + k)
	}
	return docs
}
