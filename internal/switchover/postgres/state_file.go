package postgres

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/cinch-layer/cinch/internal/system/durable"
)

// remembered is the content of the state file: the server that clients were moved to. A restarted gateway
// connects to it, whatever its configuration says.
type remembered struct {
	Upstream string `json:"upstream"` // URL without credentials
}

// errNoStateFile refuses a move that would be lost at a restart.
var errNoStateFile = errors.New("the gateway has no state_file: after a restart it would connect to the old server; set state_file")

// remember writes the server that the gateway uses from now on.
func (g *Gateway) remember(to string) error {
	if g.cfg.StateFile == "" {
		return errNoStateFile
	}
	text, err := json.Marshal(remembered{Upstream: to})
	if err != nil {
		return err
	}
	return durable.WriteFile(g.cfg.StateFile, append(text, '\n'))
}

// Remembered returns the server in the state file, or "" if the file does not exist.
func Remembered(file string) (string, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var r remembered
	if err := json.Unmarshal(text, &r); err != nil || r.Upstream == "" {
		return "", fmt.Errorf("%s: not the state of a gateway", file)
	}
	return r.Upstream, nil
}

// errCredentials refuses a URL with credentials.
var errCredentials = errors.New("the URL has a user or a password: remove them, a move uses the credentials of the configuration")

// rejectCredentials returns an error if the URL has credentials.
func rejectCredentials(raw string) error {
	u, err := url.Parse(raw)
	if err == nil && (u.User != nil || u.Query().Has("user") || u.Query().Has("password") || u.Query().Has("sslpassword")) {
		return errCredentials
	}
	return nil // the caller reports an invalid URL
}
