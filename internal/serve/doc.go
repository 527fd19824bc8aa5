// Package serve is a running process of gateways:
//
//	Process -> shared                          what all gateways share: codec engine, byte budgets, trainer
//	        -> running gateway, one a listener -> protocol's gateway, upstream, keeper of dictionaries, packer
//	        -> admin server                    at most one
//
// process.go holds its life, from New over Run and Reload to the drain; gateways.go makes
// gateways, with a file a protocol beside it, of what shared.go has; keeper.go is a gateway's own access to its store.
// What it says to people is its log. Errors are typed: who started it words them.
package serve
