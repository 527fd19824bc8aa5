// Package remote asks the admin pages of running gateways.
package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/cinch-layer/cinch/internal/admin"
	"github.com/cinch-layer/cinch/internal/ask"
)

// What can be wrong with an answer.
var (
	ErrNotFound = errors.New("the page has no such answer")
	ErrToken    = errors.New("the page wants a token")
)

// TokenVariable names the file with the token of an admin page.
const TokenVariable = "CINCH_ADMIN_TOKEN_FILE"

// Options say how pages are reached. Without a TokenFile it is that of TokenVariable.
type Options = ask.Options

// Page is the admin page of one process. It may be used from several goroutines.
type Page struct{ *ask.Server }

// Open makes a Page of its address, as ask.Open has it.
func Open(address string, o Options) (*Page, error) {
	o.TokenFile = cmp.Or(o.TokenFile, os.Getenv(TokenVariable))
	s, err := ask.Open(address, o)
	if err != nil {
		return nil, fmt.Errorf("the admin page: %w", err)
	}
	return &Page{s}, nil
}

// Status is the document of /api/status.
func (p *Page) Status(ctx context.Context) (s admin.Status, err error) {
	return s, p.Get(ctx, "/api/status", func(body io.Reader) error { return json.NewDecoder(body).Decode(&s) })
}

// Get has read take an answer, of which it gets 64 MiB at most. Errors hold no credentials.
func (p *Page) Get(ctx context.Context, path string, read func(io.Reader) error) error {
	return p.Do(ctx, ask.Question{Method: http.MethodGet, Path: path}, func(answer *http.Response, body io.Reader) error {
		switch answer.StatusCode {
		case http.StatusOK:
			return read(body)
		case http.StatusNotFound:
			return ErrNotFound
		case http.StatusUnauthorized:
			return fmt.Errorf("%w: name its file in %s", ErrToken, TokenVariable)
		}
		return fmt.Errorf("it answers %s", answer.Status)
	})
}
