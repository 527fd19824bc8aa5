// Package cli implements the terminal interface of package shadow: progress, signals, reports, and the
// files of recordings.
//
// Reading order: mirror.go (a run), preflight.go, flagchecks.go, watch.go, page.go, metrics.go, record.go,
// replay.go, servers.go, protocol.go, errors.go.
package cli
