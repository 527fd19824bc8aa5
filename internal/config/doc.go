// Package config reads the configuration file: strict YAML into one struct,
// with the environment and flags laid over it. docs/CONFIG.md describes every
// key for users.
//
//	load.go       file, flags and variables into a Config
//	decode.go     YAML nodes into the struct, with a line for every complaint
//	override.go   environment and flags
//	validate.go   everything that can be wrong with the values, whatever the protocol
//	show.go       printing it back, without secrets; what a reload can't change
//	policy.go     rules as internal/policy wants them
//	files.go      what it names is read: dictionaries, certificates
//	passwords.go  passwords that are in files and not in URLs
//	upstream.go   the URL of an upstream, by protocol
//	grpc.go       what only gRPC gateways have
//	pair.go       dictionaries between two gRPC gateways
//	link.go       streams between two gRPC gateways
//	mongo.go      what only MongoDB gateways have
//	tunnel.go     what only the ends of a tunnel have
//	tarantool.go  what only Tarantool gateways have
//	redis.go      several Redis servers
//	pack.go       packing in the background
//	proxy.go      PROXY headers
//	validator.go  what checks of all kinds have in common
//	problem.go    complaints
//	config.go     the struct and its defaults
//	scalar.go     sizes, percentages, durations, settings
package config
