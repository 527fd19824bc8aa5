package store

import "errors"

// Classes of explained errors: what a caller decides by, whatever the store.
var (
	// ErrUnreachable: no server answers.
	ErrUnreachable = errors.New("the store can't be reached")
	// ErrUsage: what was asked for is no store, or no value of it.
	ErrUsage = errors.New("not what the store has")
	// ErrConfig: rules, or what else is configured, don't fit the store.
	ErrConfig = errors.New("the configuration does not fit the store")
)

// ErrDictUnknown: whether the store has a dictionary is not known, so neither is whether values that
// name it open.
var ErrDictUnknown = errors.New("the store can't be asked for a dictionary")

// Explained is an error of a store, for people. A store knows which of its rights or settings
// helps against an error, and nobody above it does.
type Explained struct {
	Server string // "": Err names it
	Err    error
	Class  error  // nil: none
	Help   string // "": nothing is known to help
}

func (e *Explained) Error() string {
	if e.Server == "" {
		return e.Err.Error()
	}
	return e.Server + ": " + e.Err.Error()
}

// Hint is what helps, as internal/ui prints it.
func (e *Explained) Hint() string { return e.Help }

func (e *Explained) Unwrap() []error {
	if e.Class == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Class}
}

// IsExplained reports that an error was explained already, perhaps by another node of the store.
func IsExplained(err error) bool {
	var e *Explained
	return errors.As(err, &e)
}
