// Package server runs gateways in one process:
//
//	Process -> shared                          what all gateways share: codec engine, byte budgets, trainer
//	        -> running gateway, one per listener -> protocol's gateway, upstream, store access, packer
//	        -> admin server                    at most one
//
// process.go has the process's lifecycle: New, Run and the drain. gateways.go makes gateways from what shared.go
// holds, with a file per protocol beside it. ownstore.go is a gateway's own access to its store, apart from its
// clients'.
//
// The process reports by its log. Errors are typed: the caller formats them for the user.
package server
