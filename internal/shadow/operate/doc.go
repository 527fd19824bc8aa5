// Package operate is what somebody at a terminal has of package shadow: progress, signals, reports, and the files of recordings.
//
// Reading order: watch.go (a run), record.go, replay.go, servers.go, protocol.go, fault.go.
package operate
