// Package patroni is a client for Patroni's REST API (client.go, with the responses in answers.go) and edits
// the configuration of a member (config.go). Package rollout decides what to do.
package patroni
