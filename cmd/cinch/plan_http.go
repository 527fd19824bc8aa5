package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/cinch-layer/cinch/internal/plan"
	"github.com/cinch-layer/cinch/internal/store/open"
	"github.com/cinch-layer/cinch/internal/ui"
)

// planMessages makes the plan of what a running gateway has measured.
func (o *planOptions) planMessages(ctx context.Context, p plan.Options) (*plan.Report, error) {
	base := strings.TrimRight(o.from[0], "/")
	p.Source.Name = open.Redact(o.from[0])
	var status struct {
		Uptime float64 `json:"uptime_seconds"`
	}
	err := getJSON(ctx, base+"/api/status", func(body io.Reader) error { return json.NewDecoder(body).Decode(&status) })
	var r *plan.Report
	if err == nil {
		err = getJSON(ctx, base+"/api/messages", func(body io.Reader) (err error) {
			r, err = plan.Messages(body, status.Uptime, p)
			return err
		})
	}
	switch {
	case errors.Is(err, plan.ErrNoMessages), errors.Is(err, errNotFound):
		return nil, ui.WithHint(fmt.Errorf("%s: %w", p.Source.Name, plan.ErrNoMessages), "it takes a gateway for gRPC or MongoDB with sample: true, or a rule with dictionary: auto, and some traffic")
	case err != nil && ctx.Err() == nil:
		return nil, withCode(exitUnreachable, ui.WithHint(fmt.Errorf("%s: %w", p.Source.Name, err), "give the address of a running gateway's admin page, http://host:9470"))
	}
	return r, err
}

// adminTokenVariable names the file with the token of an admin page.
const adminTokenVariable = "CINCH_ADMIN_TOKEN_FILE"

var errNotFound = errors.New("not found")

func getJSON(ctx context.Context, address string, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, open.WalkTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	if file := os.Getenv(adminTokenVariable); file != "" {
		token, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // the outer one repeats the URL, which may hold a password
		}
		return err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		return read(io.LimitReader(response.Body, plan.MaxMessagesBytes))
	case http.StatusNotFound:
		return errNotFound
	case http.StatusUnauthorized:
		return errors.New("it wants a token: name its file in " + adminTokenVariable)
	}
	return fmt.Errorf("it answers %s", response.Status)
}
