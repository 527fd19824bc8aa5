// Package testenv starts real servers, and the gateway in front of them, as processes that belong to one
// test. Each has free ports and a directory of its own and is stopped when the test ends. If the test
// fails, its output is logged.
//
// Nothing is mocked. If a server is not installed the test is skipped; with CI=true it fails. scripts/servers
// installs the servers.
//
// Every test program that imports this package links its imports too, so it imports no client libraries of
// servers. For that reason MongoDB's server is in package mongotest.
package testenv
