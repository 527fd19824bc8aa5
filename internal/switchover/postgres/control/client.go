package control

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/cinch-layer/cinch/internal/observe/client"
)

// Client controls one gateway through the admin page of its process.
type Client struct {
	Admin     string // host:port, unix:/path, or a URL
	TokenFile string // its admin.token_file: every action needs the token, wherever the page listens
	Gateway   string // its name; "": postgres
}

// State returns the state of the gateway.
func (c *Client) State(ctx context.Context) (s State, err error) {
	err = c.do(ctx, http.MethodGet, "/api/postgres/"+c.name(), nil, &s)
	return s, err
}

// Check has the gateway examine all idle sessions, so that the State has the reasons why they can't be moved.
func (c *Client) Check(ctx context.Context) (s State, err error) {
	return s, c.act(ctx, "check", nil, &s)
}

// Reach has the gateway test whether it could move its clients to another server.
func (c *Client) Reach(ctx context.Context, r ReachRequest) (s State, err error) {
	return s, c.act(ctx, "reach", r, &s)
}

// Hold lets no transaction begin, and returns when none is in progress. After an error everything is as
// before, except that sessions that r allowed to end may have ended. The error is a *Refusal if sessions
// prevented the hold.
func (c *Client) Hold(ctx context.Context, r HoldRequest) (s State, err error) {
	return s, c.act(ctx, "hold", r, &s)
}

// Move connects all clients to another server. After an error they are held as before.
func (c *Client) Move(ctx context.Context, r MoveRequest) (s State, err error) {
	return s, c.act(ctx, "move", r, &s)
}

// Release lets the clients continue.
func (c *Client) Release(ctx context.Context) (s State, err error) {
	return s, c.act(ctx, "release", nil, &s)
}

// Report has the gateway's admin page show r.
func (c *Client) Report(ctx context.Context, r Report) error {
	return c.act(ctx, "report", r, new(State))
}

func (c *Client) act(ctx context.Context, action string, ask, answer any) error {
	return c.do(ctx, http.MethodPost, "/api/actions/postgres/"+c.name()+"/"+action, ask, answer)
}

func (c *Client) name() string {
	if c.Gateway == "" {
		return "postgres"
	}
	return c.Gateway
}

func (c *Client) do(ctx context.Context, method, path string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	page, err := client.Open(c.Admin, client.Options{TokenFile: c.TokenFile, Patient: true})
	if err != nil {
		return fmt.Errorf("the admin page: %w", err)
	}
	return page.Do(ctx, client.Request{Method: method, Path: path, Body: body}, func(resp *http.Response, body io.Reader) error {
		text, err := io.ReadAll(body)
		switch {
		case err != nil:
			return err
		case resp.StatusCode == http.StatusOK:
			return json.Unmarshal(text, answer)
		}
		var refusal Refusal
		if json.Unmarshal(text, &refusal) == nil && refusal.Message != "" {
			refusal.Message = Shown(refusal.Message)
			return &refusal
		}
		return fmt.Errorf("the gateway's admin page answered %s: %s", resp.Status, Shown(string(bytes.TrimSpace(text))))
	})
}

// shownBytes limits how much of a response an error shows. The response may be of an unrelated server.
const shownBytes = 2 << 10

// Shown returns text, cut to the length that an error shows.
func Shown(text string) string {
	if len(text) <= shownBytes {
		return text
	}
	return strings.ToValidUTF8(text[:shownBytes], "") + "…"
}
