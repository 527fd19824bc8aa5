// Package remote queries the admin pages of running gateways.
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

	"github.com/cinch-layer/cinch/internal/observe/admin"
	"github.com/cinch-layer/cinch/internal/observe/client"
)

// Errors of an answer.
var (
	ErrNotFound = errors.New("the page does not serve this path")
	ErrToken    = errors.New("the page requires a token")
)

// TokenVariable names the file with the token of an admin page.
const TokenVariable = "CINCH_ADMIN_TOKEN_FILE"

// Options configures the access to pages. The default of TokenFile is that of TokenVariable.
type Options = client.Options

// Page is the admin page of one process. It is safe for concurrent use.
type Page struct{ *client.Server }

// Open returns the Page at an address in the form of client.Open.
func Open(address string, o Options) (*Page, error) {
	o.TokenFile = cmp.Or(o.TokenFile, os.Getenv(TokenVariable))
	s, err := client.Open(address, o)
	if err != nil {
		return nil, fmt.Errorf("the admin page: %w", err)
	}
	return &Page{s}, nil
}

// Status returns the document of /api/status.
func (p *Page) Status(ctx context.Context) (s admin.Status, err error) {
	return s, p.Get(ctx, "/api/status", func(body io.Reader) error { return json.NewDecoder(body).Decode(&s) })
}

// Get passes the body of an answer, up to 64 MiB, to read. Errors contain no credentials.
func (p *Page) Get(ctx context.Context, path string, read func(io.Reader) error) error {
	return p.Do(ctx, client.Request{Method: http.MethodGet, Path: path}, func(answer *http.Response, body io.Reader) error {
		switch answer.StatusCode {
		case http.StatusOK:
			return read(body)
		case http.StatusNotFound:
			return ErrNotFound
		case http.StatusUnauthorized:
			return fmt.Errorf("%w: name its file in %s", ErrToken, TokenVariable)
		}
		return fmt.Errorf("the page answers %s", answer.Status)
	})
}
