// Package cinchredis lets a go-redis client write and read the values that Cinch compresses, without a gateway.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "cache:6379"})
//	if err := cinchredis.Attach(ctx, rdb, cinchredis.Options{}); err != nil { … }
//	rdb.Set(ctx, "menu:7", menu, time.Hour) // compressed as the gateways' policy says
//	rdb.Get(ctx, "menu:7")                  // also reads what a gateway or another library wrote
//
// Nothing is configured: gateways publish their policy in the store, and train the dictionaries. The package
// reads the policy every 30 seconds, and compresses nothing if there is none. Commands that would compute
// on compressed bytes are refused before they are sent. docs/LIBRARIES.md specifies what such a library does.
//
// Read in this order: hook.go commands.go seal.go open.go keeper.go servers.go errors.go bytes.go.
package cinchredis
