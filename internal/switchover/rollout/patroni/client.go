package patroni

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// Access holds the credentials for the REST API.
type Access struct {
	User               string `yaml:"user"`          // restapi.authentication.username
	PasswordFile       string `yaml:"password_file"` // contains its password
	CA                 string `yaml:"ca"`            // CA certificates for members; none: system roots
	Cert               string `yaml:"cert"`          // client certificate, for restapi.verify_client
	Key                string `yaml:"key"`
	InsecureSkipVerify bool   `yaml:"insecure_skip_verify"`
}

// Client sends requests to the members of one cluster.
type Client struct {
	http           *http.Client
	user, password string
}

// Time limits for responses. A switchover is answered when it has happened or failed: Patroni itself waits
// for 20 s, or twice its loop_wait.
const (
	answerTime     = 5 * time.Second
	switchoverTime = 3 * time.Minute
)

// maxAnswerBytes limits a response.
const maxAnswerBytes = 8 << 20

// NewClient returns a Client. It reads the files named in a.
func NewClient(a Access) (*Client, error) {
	c := &Client{user: a.User}
	if a.PasswordFile != "" {
		text, err := os.ReadFile(a.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("read the password for Patroni's REST API: %w", err)
		}
		c.password = strings.TrimSpace(string(text))
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: a.InsecureSkipVerify} //nolint:gosec // by the user's own word
	if a.CA != "" {
		text, err := os.ReadFile(a.CA)
		if err != nil {
			return nil, fmt.Errorf("read the CA certificates of Patroni's REST API: %w", err)
		}
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate", a.CA)
		}
	}
	if a.Cert != "" {
		pair, err := tls.LoadX509KeyPair(a.Cert, a.Key)
		if err != nil {
			return nil, fmt.Errorf("read the client certificate for Patroni's REST API: %w", err)
		}
		secure.Certificates = []tls.Certificate{pair}
	}
	c.http = &http.Client{Transport: &http.Transport{TLSClientConfig: secure, DisableKeepAlives: true}}
	return c, nil
}

// Refusal is a response with an error status.
type Refusal struct {
	Code int // HTTP status
	Text string
}

func (r *Refusal) Error() string { return fmt.Sprintf("Patroni answered %d: %s", r.Code, r.Text) }

// Definite reports whether a switchover refused in this way will not happen: the request was not written into
// Patroni's store.
func (r *Refusal) Definite() bool {
	return r.Code == http.StatusPreconditionFailed || r.Code == http.StatusBadRequest || r.Code == http.StatusUnauthorized || r.Code == http.StatusForbidden
}

// Cluster returns the cluster of a member.
func (c *Client) Cluster(ctx context.Context, api string) (cluster Cluster, err error) {
	return cluster, c.get(ctx, api, "/cluster", &cluster)
}

// AnyCluster asks members in turn until one answers.
func (c *Client) AnyCluster(ctx context.Context, apis []string) (Cluster, error) {
	var failed []error
	for _, api := range apis {
		cluster, err := c.Cluster(ctx, api)
		if err == nil {
			return cluster, nil
		}
		failed = append(failed, err)
	}
	return Cluster{}, fmt.Errorf("no member of the cluster answers: %w", errors.Join(failed...))
}

// Status returns the status of a member.
func (c *Client) Status(ctx context.Context, api string) (s Status, err error) {
	return s, c.get(ctx, api, "/patroni", &s)
}

// Settings returns the settings of a member's cluster.
func (c *Client) Settings(ctx context.Context, api string) (s Settings, err error) {
	return s, c.get(ctx, api, "/config", &s)
}

// MayOrder returns an error if a member would refuse orders from this client. It requests to delete a
// scheduled switch-over, so it must be called only when there is none.
func (c *Client) MayOrder(ctx context.Context, api string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_, err := c.do(ctx, http.MethodDelete, api+"/switchover", nil)
	var no *Refusal
	if errors.As(err, &no) && no.Code != http.StatusUnauthorized && no.Code != http.StatusForbidden {
		return nil // no switch-over is scheduled
	}
	return err
}

// Reload makes a member read its configuration again, shortly after it has answered.
func (c *Client) Reload(ctx context.Context, api string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	_, err := c.do(ctx, http.MethodPost, api+"/reload", struct{}{})
	return err
}

// Switchover makes a candidate the leader, and returns when it is. After an error that is not a definite
// Refusal the switchover may still happen.
func (c *Client) Switchover(ctx context.Context, api, leader, candidate string) error {
	ctx, cancel := context.WithTimeout(ctx, switchoverTime)
	defer cancel()
	_, err := c.do(ctx, http.MethodPost, api+"/switchover", map[string]string{"leader": leader, "candidate": candidate})
	return err
}

func (c *Client) get(ctx context.Context, api, path string, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	text, err := c.do(ctx, http.MethodGet, api+path, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("parse the answer of %s%s, which is not Patroni's: %w", api, path, err)
	}
	return nil
}

func (c *Client) do(ctx context.Context, method, url string, ask any) ([]byte, error) {
	var body io.Reader
	if ask != nil {
		text, err := json.Marshal(ask)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if c.user != "" && method != http.MethodGet {
		r.SetBasicAuth(c.user, c.password)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, &Refusal{resp.StatusCode, strings.TrimSpace(string(text))}
	}
	return text, nil
}
