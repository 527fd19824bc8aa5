// Package open connects to the servers behind a store's URL. It is the only package that lists the kinds of stores.
package open

import "time"

const (
	// AnswerTimeout limits connecting to a store and each of its answers.
	AnswerTimeout = 5 * time.Second
	// WalkTimeout limits each answer during a walk: a page may have megabytes.
	WalkTimeout = 30 * time.Second
)
