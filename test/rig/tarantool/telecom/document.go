package telecom

import (
	"math/rand/v2"
	"strconv"
)

// document builds one document.
type document struct {
	w writer
	o *operator
	r *rand.Rand

	joined, updated int64  // Unix milliseconds
	cells           [3]int // where the subscriber usually is
	peers           [3]int // numbers that the subscriber usually calls
}

func (d *document) write() {
	w := &d.w
	d.updated = newest - int64(d.r.IntN(300*86400_000))
	d.joined = d.updated - int64(d.r.IntN(8*365))*86400_000 - int64(d.r.IntN(86400_000))
	for i := range d.cells {
		d.cells[i], d.peers[i] = d.r.IntN(1<<24), d.r.IntN(10_000_000)
	}
	w.object("", func() {
		w.digits("subscriberId", "S", d.r, 9)
		w.digits("msisdn", d.o.prefix, d.r, 7)
		w.digits("imsi", strconv.Itoa(d.o.mcc)+strconv.Itoa(d.o.mnc), d.r, 10)
		w.digits("iccid", d.o.issuer, d.r, 10)
		w.text("operator", d.o.name)
		w.text("status", pick(d.r, statuses))
		w.text("segment", pick(d.r, segments))
		w.text("language", pick(d.r, languages))
		w.time("createdAt", d.joined)
		w.time("updatedAt", d.updated)
		w.int("version", 1+d.r.IntN(400))
		w.object("customer", d.customer)
		w.object("tariff", d.tariff)
		w.list("balances", d.balances)
		w.list("services", d.services)
		w.object("device", d.device)
		w.object("location", d.location)
		w.list("recentSessions", d.sessions)
		w.object("consents", d.consents)
	})
}

func (d *document) customer() {
	w, first, last := &d.w, pick(d.r, firstNames), pick(d.r, lastNames)
	w.digits("customerId", "C", d.r, 9)
	w.text("type", "INDIVIDUAL")
	w.text("firstName", first)
	w.text("lastName", last)
	w.text("birthDate", strconv.Itoa(1940+d.r.IntN(66))+"-0"+strconv.Itoa(1+d.r.IntN(9))+"-"+strconv.Itoa(10+d.r.IntN(19)))
	w.object("identityDocument", func() {
		w.text("type", pick(d.r, documents))
		w.digits("number", "", d.r, 9)
		w.date("issuedAt", d.joined-int64(d.r.IntN(3000*86400_000)))
	})
	w.text("email", first+"."+last+strconv.Itoa(d.r.IntN(1000))+"@"+pick(d.r, mailHosts))
	w.object("address", func() {
		w.text("country", d.o.country)
		w.text("city", pick(d.r, d.o.cities))
		w.text("street", pick(d.r, d.o.streets))
		w.text("house", strconv.Itoa(1+d.r.IntN(200)))
		w.digits("postalCode", "", d.r, 6)
	})
}

func (d *document) tariff() {
	t := pick(d.r, d.o.tariffs)
	d.w.text("code", t.code)
	d.w.text("name", t.name)
	d.w.cents("monthlyFee", t.price)
	d.w.text("currency", "EUR")
	d.w.time("activatedAt", d.joined)
	d.w.date("nextChargeAt", d.updated+int64(d.r.IntN(30))*86400_000)
}

func (d *document) balances() {
	w := &d.w
	for _, b := range balanceTypes {
		w.object("", func() {
			w.text("type", b[0])
			w.text("unit", b[1])
			w.cents("amount", d.r.IntN(1_000_000))
			w.date("expiresAt", d.updated+30*86400_000)
		})
	}
}

func (d *document) services() {
	w := &d.w
	for range 5 {
		s, since := pick(d.r, d.o.services), d.joined
		if d.r.IntN(2) == 0 { // ordered later
			since = d.updated - int64(d.r.IntN(300))*86400_000
		}
		w.object("", func() {
			w.text("code", s.code)
			w.text("name", s.name)
			w.text("status", pick(d.r, statuses))
			w.cents("price", s.price)
			w.text("currency", "EUR")
			w.time("activatedAt", since)
		})
	}
}

func (d *document) device() {
	w, m := &d.w, pick(d.r, models)
	w.digits("imei", m[3], d.r, 7)
	w.text("vendor", m[0])
	w.text("model", m[1])
	w.text("os", m[2])
	w.date("firstSeenAt", d.updated-int64(d.r.IntN(700*86400_000)))
	w.bool("volte", d.r.IntN(4) > 0)
	w.bool("esim", d.r.IntN(5) == 0)
}

func (d *document) location() {
	w := &d.w
	w.int("mcc", d.o.mcc)
	w.int("mnc", d.o.mnc)
	w.int("lac", pick(d.r, d.o.areas))
	w.int("cellId", d.cells[0])
	w.time("updatedAt", d.updated)
}

func (d *document) sessions() {
	w, at := &d.w, d.updated
	for range 6 {
		kind := pick(d.r, sessionTypes)
		at -= int64(d.r.IntN(6 * 3600_000))
		w.object("", func() {
			w.text("type", kind)
			w.time("startedAt", at)
			w.int("durationSeconds", d.r.IntN(3600))
			w.int("cellId", pick(d.r, d.cells[:]))
			w.cents("charge", 5*d.r.IntN(8))
			if kind == "DATA" {
				w.text("apn", d.o.apn)
				w.int("kilobytes", d.r.IntN(200_000))
			} else {
				w.number("peer", d.o.prefix, pick(d.r, d.peers[:]))
			}
		})
	}
}

func (d *document) consents() {
	for _, name := range consents {
		d.w.bool(name, d.r.IntN(3) > 0)
	}
}

var (
	countries    = []string{"Austria", "Belgium", "Denmark", "Finland", "France", "Germany", "Italy", "Netherlands", "Norway", "Poland", "Portugal", "Spain", "Sweden"}
	statuses     = []string{"ACTIVE", "ACTIVE", "ACTIVE", "ACTIVE", "SUSPENDED", "BLOCKED", "PENDING"}
	segments     = []string{"CONSUMER", "CONSUMER", "CONSUMER", "SMALL_BUSINESS", "ENTERPRISE"}
	languages    = []string{"en", "de", "fr", "it", "es", "pl", "nl"}
	documents    = []string{"PASSPORT", "NATIONAL_ID", "DRIVING_LICENCE"}
	mailHosts    = []string{"mail.example", "post.example", "inbox.example", "web.example"}
	sessionTypes = []string{"DATA", "DATA", "DATA", "VOICE", "SMS"}
	balanceTypes = [][2]string{{"MAIN", "EUR"}, {"BONUS", "EUR"}, {"DATA", "MEGABYTE"}, {"VOICE", "MINUTE"}, {"SMS", "MESSAGE"}}
	consents     = []string{"marketingEmail", "marketingSms", "dataSharing", "locationTracking", "profiling", "thirdParties"}
	models       = [][4]string{ // with the first digits of their IMEI
		{"Apple", "iPhone 15", "iOS 18.1", "35000101"},
		{"Apple", "iPhone 13 mini", "iOS 17.6", "35000219"},
		{"Samsung", "Galaxy S24", "Android 15", "35000347"},
		{"Samsung", "Galaxy A54", "Android 14", "35000451"},
		{"Xiaomi", "Redmi Note 13", "Android 14", "86000563"},
		{"Google", "Pixel 9", "Android 15", "35000679"},
		{"Nokia", "G42", "Android 13", "35000787"},
		{"Motorola", "Edge 50", "Android 14", "35000891"},
	}
	firstNames = []string{
		"Anna", "Ben", "Clara", "David", "Elena", "Felix", "Greta", "Hugo", "Ida", "Jan", "Klara", "Leo", "Mia", "Noah", "Olga", "Paul",
		"Rosa", "Simon", "Tina", "Udo", "Vera", "Willem", "Yara", "Zoe", "Marta", "Lucas", "Sofia", "Emil", "Nora", "Oscar", "Alma", "Karl",
	}
	lastNames = []string{
		"Adler", "Bianchi", "Costa", "Dupont", "Eriksen", "Fischer", "Garcia", "Hansen", "Ivanova", "Jansen", "Kowalski", "Lindqvist", "Martin",
		"Novak", "Olsen", "Petit", "Quint", "Rossi", "Schmidt", "Torres", "Ulrich", "Virtanen", "Weber", "Ximenes", "Young", "Zimmer", "Berg",
		"Moreau", "Silva", "Nowak", "Keller", "Andersson",
	}
)
