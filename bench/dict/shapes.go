package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/cinch-layer/cinch/bench/corpora"
)

// vocabulary holds words from real packages, which the stream's documents are made of.
type vocabulary struct {
	films, people, companies, genres []string
	places                           []string // of earthquakes
	countries                        []country
	pages                            []string // paths of interfaces
}

type country struct{ name, capital, code, currency string }

func loadVocabulary(cache string) (*vocabulary, error) {
	v := &vocabulary{}
	for _, load := range []func(string) error{v.loadFilms, v.loadPlaces, v.loadCountries, v.loadPages} {
		if err := load(cache); err != nil {
			return nil, err
		}
	}
	for name, n := range map[string]int{
		"films": len(v.films), "people": len(v.people), "companies": len(v.companies),
		"places": len(v.places), "countries": len(v.countries), "pages": len(v.pages),
	} {
		if n < 100 {
			return nil, fmt.Errorf("too few: %d %s", n, name)
		}
	}
	return v, nil
}

func (v *vocabulary) loadFilms(cache string) error {
	records, err := corpora.Movies(cache)
	seen := map[string]bool{}
	for _, r := range records {
		var m struct {
			Title, Director, Distributor any    // some titles are numbers
			Genre                        string `json:"Major Genre"`
		}
		if err := json.Unmarshal(r.Value, &m); err != nil {
			return err
		}
		v.films = appendNew(v.films, m.Title, seen)
		v.people = appendNew(v.people, m.Director, seen)
		v.companies = appendNew(v.companies, m.Distributor, seen)
		v.genres = appendNew(v.genres, m.Genre, seen)
	}
	return err
}

func appendNew(list []string, x any, seen map[string]bool) []string {
	s, _ := x.(string)
	if s == "" || seen[s] {
		return list
	}
	seen[s] = true
	return append(list, s)
}

func (v *vocabulary) loadPlaces(cache string) error {
	records, err := corpora.Quakes(cache)
	for _, r := range records {
		var q struct{ Properties struct{ Place string } }
		if err := json.Unmarshal(r.Value, &q); err != nil {
			return err
		}
		v.places = append(v.places, q.Properties.Place)
	}
	return err
}

func (v *vocabulary) loadCountries(cache string) error {
	records, err := corpora.Countries(cache)
	for _, r := range records {
		var c struct {
			Name       struct{ Common string }
			Capital    []string
			Cca2       string
			Currencies json.RawMessage // an object, or an empty list
		}
		if err := json.Unmarshal(r.Value, &c); err != nil {
			return err
		}
		currencies := map[string]any{}
		_ = json.Unmarshal(c.Currencies, &currencies)
		least := ""
		for code := range currencies {
			if least == "" || code < least {
				least = code
			}
		}
		if len(c.Capital) > 0 && least != "" {
			v.countries = append(v.countries, country{c.Name.Common, c.Capital[0], c.Cca2, least})
		}
	}
	return err
}

func (v *vocabulary) loadPages(cache string) error {
	records, err := corpora.Compat(cache)
	seen := map[string]bool{}
	for _, r := range records {
		var c struct {
			URL string `json:"mdn_url"`
		}
		if err := json.Unmarshal(r.Value, &c); err != nil {
			return err
		}
		v.pages = appendNew(v.pages, strings.TrimPrefix(c.URL, "https://developer.mozilla.org/docs/"), seen)
	}
	return err
}

// Two generations of an application's documents, four shapes each. The second has the same content under
// other names, with other nesting and order, as after a rewrite.
const shapes = 4

// document makes the i-th document of a generation. The result is deterministic.
func (v *vocabulary) document(generation, i int) []byte {
	for try := uint64(0); ; try++ { // a document that is too short or too long is made again
		r := random{rand.New(rand.NewPCG(uint64(generation)<<32+uint64(i), try))}
		make := [2][shapes]func(random) any{
			{v.order, v.session, v.alert, v.view},
			{v.purchase, v.login, v.tremor, v.hit},
		}[generation][r.IntN(shapes)]
		text, err := json.Marshal(make(r))
		if err != nil {
			panic(err) // can't happen: the maps are made here
		}
		if len(text) >= 200 && len(text) <= 600 {
			return text
		}
	}
}

type random struct{ *rand.Rand }

func (r random) pick(list []string) string { return list[r.IntN(len(list))] }
func (r random) hex(n int) string {
	return fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64())[:n]
}

// unix returns a random time within one week of 2026, in Unix milliseconds.
func (r random) unix() int64 { return 1_790_000_000_000 + r.Int64N(7*86_400_000) }

func (r random) price() float64 {
	return float64(r.IntN(20_000)) / 100
}

type object = map[string]any

func (v *vocabulary) order(r random) any {
	c := v.countries[r.IntN(len(v.countries))]
	var items []object
	for range r.IntN(2) + 1 {
		items = append(items, object{"title": r.pick(v.films), "quantity": r.IntN(3) + 1, "unit_price": r.price()})
	}
	return object{
		"order_id": r.hex(16), "status": r.pick([]string{"pending", "paid", "shipped", "delivered", "returned"}), "items": items,
		"customer": object{"id": r.IntN(1e6), "name": r.pick(v.people)}, "currency": c.currency,
		"ship_to": object{"city": c.capital, "country": c.name, "country_code": c.code}, "created_at": r.unix(),
	}
}

func (v *vocabulary) purchase(r random) any {
	c := v.countries[r.IntN(len(v.countries))]
	var lines []object
	for range r.IntN(2) + 1 {
		lines = append(lines, object{"productName": r.pick(v.films), "count": r.IntN(3) + 1, "amount": object{"value": r.price(), "currencyCode": c.currency}})
	}
	return object{
		"kind": "Purchase", "purchaseReference": r.hex(16), "lineItems": lines, "placedAtMillis": r.unix(),
		"buyer":      object{"accountNumber": r.IntN(1e6), "displayName": r.pick(v.people)},
		"fulfilment": object{"destinationCity": c.capital, "destinationCountry": c.name, "iso": c.code, "stage": r.pick([]string{"AWAITING_PAYMENT", "IN_TRANSIT", "COMPLETE"})},
	}
}

func (v *vocabulary) session(r random) any {
	c := v.countries[r.IntN(len(v.countries))]
	return object{
		"session": r.hex(32), "user_id": r.IntN(1e6), "user_name": r.pick(v.people), "roles": []string{r.pick([]string{"admin", "editor", "author"}), "reader"},
		"locale":     object{"country": c.code, "currency": c.currency, "timezone_city": c.capital},
		"user_agent": fmt.Sprintf("Mozilla/5.0 (%s) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%d.0.0.0 Safari/537.36", r.pick(systems), 100+r.IntN(40)),
		"last_seen":  r.unix(), "two_factor": r.IntN(2) == 0,
	}
}

var systems = []string{"X11; Linux x86_64", "Windows NT 10.0; Win64; x64", "Macintosh; Intel Mac OS X 10_15_7", "Linux; Android 14; Pixel 8"}

func (v *vocabulary) login(r random) any {
	c := v.countries[r.IntN(len(v.countries))]
	return object{
		"kind": "Login", "token": r.hex(32), "principal": object{"accountNumber": r.IntN(1e6), "displayName": r.pick(v.people), "permissionLevel": r.IntN(5)},
		"region":           object{"iso": c.code, "capitalCity": c.capital, "preferredCurrencyCode": c.currency},
		"device":           object{"operatingSystem": r.pick(systems), "browserFamily": r.pick([]string{"Chrome", "Firefox", "Safari", "Edge"}), "browserMajor": 100 + r.IntN(40)},
		"authenticatedVia": r.pick([]string{"PASSWORD", "PASSKEY", "SINGLE_SIGN_ON"}), "refreshedAtMillis": r.unix(), "trustedDevice": r.IntN(2) == 0,
	}
}

func (r random) coordinate(most int) float64 { return float64(r.IntN(2*most*1000)-most*1000) / 1000 }

func (v *vocabulary) alert(r random) any {
	return object{
		"type": "earthquake", "id": r.pick([]string{"ci", "nc", "us", "ak"}) + r.hex(8), "place": r.pick(v.places), "magnitude": float64(r.IntN(70)) / 10,
		"magnitude_type": r.pick([]string{"ml", "md", "mb", "mww"}), "time": r.unix(), "updated": r.unix(), "status": r.pick([]string{"automatic", "reviewed"}), "tsunami": 0,
		"geometry": object{"type": "Point", "coordinates": []float64{r.coordinate(180), r.coordinate(90), float64(r.IntN(2000)) / 10}}, "gap": r.IntN(360), "rms": float64(r.IntN(200)) / 100,
	}
}

func (v *vocabulary) tremor(r random) any {
	return object{
		"kind": "SeismicEvent", "eventReference": r.pick([]string{"ci", "nc", "us", "ak"}) + r.hex(8), "describedLocation": r.pick(v.places),
		"strength":   object{"scale": r.pick([]string{"LOCAL", "DURATION", "BODY_WAVE", "MOMENT"}), "value": float64(r.IntN(70)) / 10},
		"hypocentre": object{"longitude": r.coordinate(180), "latitude": r.coordinate(90), "depthKilometres": float64(r.IntN(2000)) / 10},
		"quality":    object{"azimuthalGap": r.IntN(360), "residual": float64(r.IntN(200)) / 100, "humanReviewed": r.IntN(2) == 0}, "occurredAtMillis": r.unix(), "revisedAtMillis": r.unix(),
	}
}

func (v *vocabulary) view(r random) any {
	return object{
		"type": "page_view", "event_id": r.hex(32), "url": "https://docs.example.com/en/" + r.pick(v.pages), "referrer": "https://www." + r.pick([]string{"google", "bing", "duckduckgo", "github"}) + ".com/",
		"viewport": object{"width": 320 + r.IntN(1600), "height": 480 + r.IntN(900)}, "duration_ms": r.IntN(60_000), "visitor": object{"id": r.IntN(1e6), "returning": r.IntN(2) == 0},
		"experiment": object{"name": "navigation-sidebar", "variant": r.pick([]string{"a", "b", "control"})}, "time": r.unix(),
	}
}

func (v *vocabulary) hit(r random) any {
	return object{
		"kind": "DocumentOpened", "traceReference": r.hex(32), "documentPath": r.pick(v.pages), "cameFrom": r.pick([]string{"SEARCH", "BOOKMARK", "LINK", "DIRECT"}),
		"screen": object{"cssWidth": 320 + r.IntN(1600), "cssHeight": 480 + r.IntN(900), "devicePixelRatio": r.IntN(3) + 1}, "dwellMillis": r.IntN(60_000),
		"reader": object{"accountNumber": r.IntN(1e6), "firstVisit": r.IntN(2) == 0}, "flags": []string{"sidebar-" + r.pick([]string{"left", "right", "off"}), "contrast-normal"}, "openedAtMillis": r.unix(),
	}
}
