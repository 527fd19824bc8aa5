// Package patroni is what a roll-out has to do with Patroni: its REST API (client.go, with the answers in answers.go), and the configuration of
// a member (config.go). It decides nothing; package rollout does.
package patroni
