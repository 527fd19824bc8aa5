package store

import (
	"errors"
	"fmt"
)

// ErrGateway: the address of a store leads to a Cinch gateway.
var ErrGateway = errors.New("this is a Cinch gateway")

// Gateway holds the answer of a Cinch gateway to the question what it is, which clients don't ask.
type Gateway struct {
	Name     string
	Upstream string // URL of what is behind it, without credentials; "": it does not say
}

// Refusal returns the error of a command whose store is the gateway at that address. Through a gateway stored values look
// decompressed: they would be compressed once more, and dictionaries that they name would seem unused.
func (g Gateway) Refusal(address string) error {
	help := "use the address of the server behind it: " + g.Upstream
	if g.Upstream == "" {
		help = "use the address of the server behind it, the upstream in the gateway's configuration"
	}
	return &Explained{Server: address, Err: fmt.Errorf("%w (%q), not the server itself", ErrGateway, g.Name), Class: ErrConfig, Help: help}
}
