// Package server runs gateways in one process:
//
//	Process -> shared                          what all gateways share: codec engine, byte budgets, trainer
//	        -> running gateway, one per listener -> protocol's gateway, upstream, store access, packer
//	        -> admin server                    at most one
//
// process.go has the process's lifecycle: New, Run and the drain; reload.go and replace.go have Reload and Replace.
// prepare.go builds a process from a configuration, without the network. gateways.go makes gateways from what
// shared.go holds, with a file per protocol beside it. storeaccess.go is a gateway's own access to its store, apart
// from its clients'. packer.go and packer_pause.go pack the store in the background. admin.go starts the admin page,
// and admin_describe.go describes the configuration for it.
//
// The process reports by its log. Errors are typed: the caller formats them for the user.
package server
