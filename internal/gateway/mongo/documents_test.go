package mongo

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

var (
	firstNames = strings.Fields("Amelia Björn Chiara Dimitri Elif Farah Goran Hanna Ibrahim Jun Katarzyna Luca Mireille Nikhil Olga Pedro Quentin Rosa Stefan Tomasz Ursula Viktor Wanjiru Xenia Yusuf Zoë")
	lastNames  = strings.Fields("Abernathy Bianchi Castellanos Dubois Eriksson Fernández Grünwald Haddad Ivanova Jansen Kowalski Lindqvist Marchetti Nakamura Okafor Petrov Quispe Rasmussen Silva Tanaka Ueda Vasquez Weber Xu Yılmaz Zhang")
	streets    = strings.Fields("Acacia Birch Chestnut Dogwood Elm Fir Gingko Hazel Ivy Juniper Larch Maple Oak Poplar Rowan Spruce Walnut Willow")
	cities     = strings.Fields("Aarhus Bergamo Coimbra Dresden Eindhoven Freiburg Galway Helsinki Innsbruck Kraków Ljubljana Málaga Nantes Ostrava Porto Rijeka Salzburg Tartu Uppsala Vilnius Zürich")
	plans      = strings.Fields("free starter team business enterprise")
	countries  = strings.Fields("Austria Denmark Finland France Germany Italy Norway Poland Portugal Spain Sweden Switzerland")
	states     = strings.Fields("active active active invited suspended")
	languages  = strings.Fields("de de en en en fr it pl")
	words      = strings.Fields("asked about invoice delivery late second attempt card expired wants refund upgraded yearly discount called support again prefers email contract renewed moved office new contact person training booked export broken report missing total import done")
)

// person returns a document of about 340 bytes like those of applications: with repeated names and words, and
// random numbers.
func person(r *rand.Rand) bson.D {
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	first, last := pick(firstNames), pick(lastNames)
	note := make([]string, 4+r.IntN(5))
	for i := range note {
		note[i] = pick(words)
	}
	var id bson.ObjectID
	for i := range id {
		id[i] = byte(r.Uint32())
	}
	copy(id[:], "\x65\x8a\x11") // timestamps within a few days
	return bson.D{
		{Key: "_id", Value: id},
		{Key: "name", Value: first + " " + last},
		{Key: "email", Value: strings.ToLower(fmt.Sprintf("%s.%s%d@example.com", first, last, r.IntN(100)))},
		{Key: "address", Value: bson.D{{Key: "street", Value: fmt.Sprintf("%d %s Street", 1+r.IntN(200), pick(streets))}, {Key: "city", Value: pick(cities)}, {Key: "zip", Value: fmt.Sprint(10000 + r.IntN(89999))}}},
		{Key: "country", Value: pick(countries)},
		{Key: "status", Value: pick(states)},
		{Key: "plan", Value: pick(plans)},
		{Key: "created", Value: bson.NewDateTimeFromTime(time.UnixMilli(1_700_000_000_000 + r.Int64N(1e10)))},
		{Key: "balance", Value: float64(r.IntN(1_000_000)) / 100},
		{Key: "visits", Value: int32(r.IntN(2000))},
		{Key: "newsletter", Value: r.IntN(4) > 0},
		{Key: "language", Value: pick(languages)},
		{Key: "notes", Value: strings.Join(note, " ")},
	}
}

func people(r *rand.Rand, n int) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = person(r)
	}
	return list
}
