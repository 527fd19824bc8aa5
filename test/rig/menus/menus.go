// Package menus generates restaurant menus in JSON like those of a published case: 9.5 to 709 KB, which LZ4
// compresses to 38.5 % and Snappy to 39.7 % on average over menus
// (https://doordash.engineering/2019/01/02/speeding-up-redis-with-compression/). A test checks this.
package menus

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
)

// Sizes of menus in bytes.
const (
	MinSize = 9_500
	MaxSize = 709_000
)

// Menu returns the menu of a number. The result is deterministic.
func Menu(number int) []byte {
	r := rand.New(rand.NewPCG(uint64(number), 0x6d656e75))
	m := &maker{Rand: r, house: r.IntN(houses), sure: 0.9, signed: spread(number, math.Phi) < signedShare}
	if m.signed {
		m.sure = 0.1
	}
	want := size(number)
	store := store{
		ID: 1000 + number, Name: m.words(2, titles), Currency: "USD", Locale: "en-US", Phone: fmt.Sprintf("+1%010d", r.IntN(1e10)),
		Address: fmt.Sprintf("%d %s St", 1+r.IntN(2000), m.words(1, titles)), Updated: m.time(),
	}
	for size := 300; size < want; {
		c := category{ID: m.id(), Title: m.words(2, titles), Sort: len(store.Categories)}
		for range 4 + r.IntN(12) {
			c.Items = append(c.Items, m.item())
			size += m.last
			if size >= want {
				break
			}
		}
		store.Categories = append(store.Categories, c)
		size += 90
	}
	out, err := json.Marshal(store)
	if err != nil {
		panic(err) // can't happen: strings and numbers only
	}
	return out
}

type store struct {
	ID         int        `json:"store_id"`
	Name       string     `json:"name"`
	Address    string     `json:"printable_address"`
	Phone      string     `json:"phone_number"`
	Currency   string     `json:"currency"`
	Locale     string     `json:"locale"`
	Updated    string     `json:"updated_at"`
	Categories []category `json:"menu_categories"`
}

type category struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Sort  int    `json:"sort_id"`
	Items []item `json:"items"`
}

type item struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Price       int      `json:"price"`
	Image       string   `json:"image_url"`
	Active      bool     `json:"is_active"`
	Tags        []string `json:"dietary_tags"`
	Extras      []extra  `json:"extras"`
}

type extra struct {
	ID      string   `json:"id"`
	Title   string   `json:"title"`
	Least   int      `json:"min_num_options"`
	Most    int      `json:"max_num_options"`
	Options []option `json:"options"`
}

type option struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Price int    `json:"price"`
}

// maker generates one menu.
type maker struct {
	*rand.Rand
	house  int     // identifies its image URLs
	sure   float64 // share of choices that items have in common
	signed bool    // each image has a signature, and most items have choices of their own
	common []extra
	last   int // bytes of the latest item, about
}

const (
	houses         = 40
	signedShare    = 0.52
	signatureBytes = 96
)

// size returns the size of a menu in bytes. Sizes are spread evenly on a logarithmic scale, with fewer at
// either end.
func size(number int) int {
	middle := (spread(number, math.Sqrt2) + spread(number, math.Pi)) / 2
	return int(math.Exp(math.Log(MinSize+1800) + middle*math.Log((MaxSize+110000)/float64(MinSize+1800))))
}

// spread maps consecutive numbers evenly to the range from 0 to 1, so that any part of the menus is like the
// whole.
func spread(number int, step float64) float64 {
	_, place := math.Modf(float64(number) * step)
	return place
}

func (m *maker) item() item {
	price := 199 + 50*m.IntN(60)
	i := item{
		ID: m.id(), Name: m.words(2+m.IntN(2), titles), Description: m.sentence(), Price: price,
		Image: m.image(), Active: m.IntN(20) > 0,
		Tags: []string{}, Extras: []extra{},
	}
	if m.IntN(4) == 0 {
		i.Tags = append(i.Tags, tags[m.IntN(len(tags))])
	}
	for m.IntN(2) == 0 {
		i.Extras = append(i.Extras, m.extra())
	}
	m.last = 330 + len(i.Description)
	for _, e := range i.Extras {
		m.last += 110 + 75*len(e.Options)
	}
	return i
}

// extra returns a choice of an item, often one that other items have too.
func (m *maker) extra() extra {
	if len(m.common) > 0 && m.Float64() < m.sure {
		recent := m.common[max(0, len(m.common)-6):]
		return recent[m.IntN(len(recent))]
	}
	e := extra{ID: m.id(), Title: "Choose " + m.words(1, titles), Least: m.IntN(2), Most: 1 + m.IntN(4)}
	for range 1 + m.IntN(4) {
		e.Options = append(e.Options, option{m.id(), m.words(1+m.IntN(2), titles), 25 * m.IntN(12)})
	}
	m.common = append(m.common, e)
	return e
}

func (m *maker) image() string {
	url := fmt.Sprintf("https://img.cdn.example.com/media/photos/house-%02d/%016x.jpg", m.house, m.Uint64())
	if !m.signed {
		return url
	}
	var signature [signatureBytes]byte
	for i := range signature {
		signature[i] = byte(m.Uint32())
	}
	return url + "?signature=" + base64.RawURLEncoding.EncodeToString(signature[:])
}

func (m *maker) id() string {
	return fmt.Sprintf("%08x-%04x-4%03x", m.Uint32(), m.Uint32()&0xffff, m.Uint32()&0xfff)
}

func (m *maker) time() string {
	return fmt.Sprintf("2018-%02d-%02dT%02d:%02d:%02d.%06dZ", 1+m.IntN(12), 1+m.IntN(28), m.IntN(24), m.IntN(60), m.IntN(60), m.IntN(1e6))
}

func (m *maker) words(n int, of []string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(of[m.IntN(len(of))])
	}
	return b.String()
}

func (m *maker) sentence() string {
	var b strings.Builder
	b.WriteString(titles[m.IntN(len(titles))])
	for range 2 + m.IntN(6) {
		if m.IntN(3) == 0 {
			b.WriteString(joins[m.IntN(len(joins))])
		}
		b.WriteByte(' ')
		b.WriteString(strings.ToLower(titles[m.IntN(len(titles))]))
	}
	b.WriteByte('.')
	return b.String()
}
