// Package redis keeps dictionaries in the Redis server whose values name them, so that they move with those
// values: through replication, into snapshots and backups, and to a server that takes over.
//
// A server with functions (Redis 7, Valkey) holds each dictionary as a library, which is
// outside the keyspace: FLUSHALL and eviction don't touch it. Replication, the RDB file
// and the AOF carry it in order with the values.
//
//	library   cinch_dict_0a1b2c3d          the number, 8 hexadecimal digits
//	source    -- zstd <n> <base64>         a comment with the content, a frame of zstd
//	function  cinch_dict_0a1b2c3d          flag no-writes; says how to read it
//	          description                  "sha256 <64 hexadecimal digits>, <n> bytes"
//
// Other servers hold a key, which any client can delete. Storing it is refused if the server would evict it:
//
//	key       cinch:dict:0a1b2c3d          in database 0, no expiry; the content itself
//
// Both are read on every server, since it may have been upgraded. Neither is ever overwritten. Dictionaries
// that no value names any more are retired and archived. Records beside the dictionaries say where they came
// from.
//
// The files, from high to low. Values:
//
//	store.go, node.go              the store: a server, or the primaries of a cluster; one primary
//	part.go                        the slots of a worker that walks a part of a cluster
//	access.go                      reading single values
//	users.go, activity.go          which users may have written values; a server's counters
//	scan.go, read.go, search.go    finding values, reading them; search indexes
//	replace_lua.go, replace.go     replacing values
//	lease.go, pause.go             taking turns at packing, and pausing it
//	gatewaycheck.go                finding out whether an address leads to a gateway
//
// Dictionaries:
//
//	clusterdicts.go, ensuredicts.go                 of a cluster, for its gateways; in new connections of packers
//	storedicts.go, dictadmin.go, spread.go          of a store, for tools and for administrators
//	collect.go, refcounts.go                        archiving dictionaries that no value names
//	dicts.go, dictsync.go, storedbytes.go           of one server, for a gateway: finding, storing and checking them
//	dictreadiness.go, serverchange.go               which of them new values may name, and on which connections
//	dictreader.go                                   access for readers only
//	dictbackends.go, inventory.go, list.go          where a server stores them; what it holds, for gateways and people
//	archive.go, oncelogger.go                       retiring, archiving, forgetting; logging each trouble once
//	keybackend.go, functionbackend.go, library.go   the two places, and the libraries' source
//	records.go                                      texts beside the dictionaries, which gateways share
//	errorhints.go, errors.go                        errors, for people and for callers
//
// The user that the client authenticates as needs +function|list and +function|load, and for records
// +function|delete. For the keys it needs +getrange, +set and +scan on ~cinch:dict:*, for records +get,
// +watch, +multi and +exec, and +config|get to see the eviction policy. A Dicts is connected to one server;
// the shards of a cluster need one each.
package redis
