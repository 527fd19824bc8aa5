package store

import (
	"errors"
	"fmt"
)

// ErrGateway: the address of a store leads to a Cinch gateway.
var ErrGateway = errors.New("this is a Cinch gateway")

// Gateway is the answer to resp.GatewayCommand, by which a Cinch gateway identifies itself. Clients don't
// send that command.
type Gateway struct {
	Name     string
	Upstream string // URL of the server behind it, without credentials; "": not reported
}

// Refusal returns the error for a store's address that leads to the gateway. A gateway returns stored values
// decompressed. So a command would compress them once more, and would find no value that names a dictionary.
func (g Gateway) Refusal(address string) error {
	help := "use the address of the server behind it: " + g.Upstream
	if g.Upstream == "" {
		help = "use the address of the server behind it, the upstream in the gateway's configuration"
	}
	return &HintedError{Server: address, Err: fmt.Errorf("%w (%q), not the server itself", ErrGateway, g.Name), Class: ErrConfig, Help: help}
}
