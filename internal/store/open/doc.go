// Package open finds the servers behind a store's URL and connects to them: it is the only
// place that knows which kinds of stores there are.
package open

import "time"

const (
	// AnswerTimeout bounds the connection to a store and each answer of it.
	AnswerTimeout = 5 * time.Second
	// WalkTimeout bounds each answer to who walks over a store: a page may be megabytes.
	WalkTimeout = 30 * time.Second
)
