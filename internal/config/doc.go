// Package config reads the configuration file: strict YAML into one struct, overridden by the environment and
// by flags. docs/CONFIG.md describes every key for users.
//
//	load.go       file, flags and variables into a Config
//	decode.go     YAML nodes into the struct, with a line for every problem
//	override.go   environment and flags
//	validate.go   checks of all values that don't depend on the protocol
//	show.go       printing without secrets; what a reload can't change
//	policy.go     conversion of rules for internal/policy
//	namedfiles.go reading the files that the configuration names: dictionaries, prices, certificates
//	passwords.go  passwords from files, for URLs without one
//	upstream.go   the URL of an upstream, by protocol
//	grpc.go       keys for gRPC gateways only
//	peers.go      dictionaries for messages between two gateways
//	link.go       compression of whole connections between two gateways
//	mongo.go      keys for MongoDB gateways only
//	tunnel.go     keys for the ends of a tunnel only
//	tarantool.go  keys for Tarantool gateways only
//	redis.go      Redis Cluster and Sentinel upstreams
//	pack.go       packing in the background
//	proxy.go      PROXY headers
//	validator.go  helpers shared by all checks
//	problem.go    problems found in a configuration
//	config.go     the struct and its defaults
//	scalar.go     sizes, percentages, durations, settings
package config
