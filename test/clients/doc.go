// Package clients runs one shared scenario (scenario.json) with client libraries of several languages,
// directly against Redis and through the gateway. Every program prints one line per operation with the
// byte-exact reply; the two outputs must be the same.
package clients
