// Package config reads the configuration file: strict YAML into one struct, overridden by the environment and
// by flags. docs/CONFIG.md describes every key for users.
//
// Reading, changing and printing a configuration:
//
//	load.go            file, flags and variables into a Config
//	decode.go          YAML nodes into the struct, with a line for every problem
//	override.go        environment and flags
//	passwords.go       passwords from files, for URLs without one
//	show.go            printing without secrets
//	needsrestart.go    the keys that a reload can't change
//	replacesetting.go  a configuration with another setting for one rule
//
// Checks:
//
//	validate.go        all values that don't depend on the protocol
//	warnings.go        likely mistakes in a valid configuration
//	securitychecks.go  open listeners, and files with secrets that every user may read
//	listeners.go       addresses that two listeners would share
//	validator.go       helpers shared by all checks
//	problem.go         problems found in a configuration
//
// What the gateways get:
//
//	policy.go          rules for internal/policy
//	namedfiles.go      the files that the configuration names: dictionaries, prices, certificates
//	upstream.go        the upstream's URL, by protocol, and its TLS
//
// Keys of single protocols and features:
//
//	redis.go, grpc.go, http.go, mongo.go, tarantool.go, postgres.go, tunnel.go  one protocol each
//	link.go            links between two gateways
//	peers.go           gateways whose clients are gateways: their key, and whether any client may open links
//	pack.go            packing in the background
//	proxyprotocol.go   PROXY headers
//	budgets.go         limits on the cost of compressing
//	clientformats.go   rules for values that the clients' library compresses
//
// The struct:
//
//	config.go          the struct and its defaults
//	scalar.go          sizes, percentages, durations, settings
package config
