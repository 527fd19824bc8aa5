package store

import (
	"errors"
	"fmt"
)

// Classes of the errors that Explain returns, the same for all stores. Callers decide by them.
var (
	// ErrUnreachable: no server answers.
	ErrUnreachable = errors.New("the store can't be reached")
	// ErrUsage: the request names no store, or no value of it.
	ErrUsage = errors.New("the request does not fit the store")
	// ErrConfig: rules or other settings don't fit the store.
	ErrConfig = errors.New("the configuration does not fit the store")
)

// ErrDictUnknown: it is unknown whether the store has a dictionary, and so whether values that name it can be
// read.
var ErrDictUnknown = errors.New("can't look up a dictionary in the store")

// HintedError is an error of a store with a hint for people. The package of the store makes it, since it knows
// which right or setting is missing.
type HintedError struct {
	Server string // "": Err names it
	Err    error
	Class  error  // nil: none
	Help   string // "": no hint
}

func (e *HintedError) Error() string {
	if e.Server == "" {
		return e.Err.Error()
	}
	return e.Server + ": " + e.Err.Error()
}

// Hint returns the hint, for internal/output/terminal to print.
func (e *HintedError) Hint() string { return e.Help }

func (e *HintedError) Unwrap() []error {
	if e.Class == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Class}
}

// IsHinted reports whether an error is a HintedError already, perhaps of another node of the store.
func IsHinted(err error) bool {
	var e *HintedError
	return errors.As(err, &e)
}

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
