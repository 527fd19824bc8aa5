package server

import "errors"

// ErrCutOff reports a drain that was ended early, by closing connections.
var ErrCutOff = errors.New("stopped while draining")

// ConfigError reports a configuration that cannot be used.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return e.Err.Error() }
func (e *ConfigError) Unwrap() error { return e.Err }

// asConfigError returns err as a ConfigError, or nil for nil.
func asConfigError(err error) error {
	if err == nil {
		return nil
	}
	return &ConfigError{err}
}

// ListenError reports an address that can't be listened on.
type ListenError struct {
	For string // "gateway cache", "admin"
	Err error
}

func (e *ListenError) Error() string { return e.For + ": " + e.Err.Error() }
func (e *ListenError) Unwrap() error { return e.Err }
