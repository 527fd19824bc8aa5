package reference

// gateways has the keys of a gateway. The meaning of a key that only some protocols have begins with the names of
// these protocols.
var gateways = []Row{
	{
		Keys: "`name`", Default: "needed",
		Meaning: "shown in logs and metrics; up to 64 letters, digits, `_`, `-`, `.`",
	},
	{
		Keys: "`protocol`", Default: "needed",
		Meaning: "`redis`, `grpc`, `http`, `mongo`, `tarantool`, `postgres`, `tunnel` or `tunnel-exit`",
	},
	{
		Keys: "`listen`", Default: "needed",
		Meaning: "address where clients connect",
	},
	{
		Keys: "`upstream`", Default: "needed",
		Meaning: "for gRPC `grpc://host:port`, `grpcs://…` for TLS, `unix:///path`; for HTTP `http://host[:port]`, `https://…`, " +
			"`h2c://host:port` for HTTP/2 without TLS; for MongoDB `mongodb://host[:port]`, with " +
			"`/?tls=true` for TLS; for Tarantool `tarantool://[user:password@]host[:port]` (port 3301 if not given); for " +
			"PostgreSQL `postgres://[user:password@]host[:port][/database]`, with `?sslmode=require`, `verify-ca` or " +
			"`verify-full` for TLS; for a tunnel `host:port` of the other end; for its exit `host:port` or `unix:///path` " +
			"of the server it leads to; both `tls://host:port` for TLS; for Redis `redis://[user:password@]host[:port]`, " +
			"`rediss://…` for TLS, `unix:///path`, and for several servers `redis+cluster://host,host,…` " +
			"(`rediss+cluster://…`) or `redis+sentinel://sentinel,sentinel,…/name` (`rediss+sentinel://…`), see " +
			"[REDIS.md](REDIS.md#redis-cluster). The port is 6379 if not given. The credentials are for the gateway; " +
			"clients log in with their own. The URL has no database: clients select theirs",
	},
	{
		Keys: "`tls.cert`, `tls.key`", Default: "plain",
		Meaning: "PEM files; with them clients connect by TLS. They are reloaded when they change",
	},
	{
		Keys: "`tls.client_ca`", Default: "none",
		Meaning: "PEM file with CA certificates: clients need a certificate signed by one of them",
	},
	{
		Keys: "`allow_open_listener`", Default: "`false`",
		Meaning: "Redis, MongoDB, Tarantool: `true` allows other machines to reach a server on this machine (loopback, or a unix socket) that requires no " +
			"password, with a warning in the log. Otherwise the gateway [refuses to start](operations/SECURITY.md#open-listeners)",
	},
	{
		Keys: "`upstream_tls.ca`", Default: "system roots",
		Meaning: "PEM file with the CA certificates for the upstream; `upstream_tls` needs a `rediss://`, " +
			"`grpcs://` or `mongodb://…/?tls=true` upstream",
	},
	{
		Keys: "`upstream_tls.cert`, `.key`", Default: "none",
		Meaning: "PEM files of the gateway's own certificate",
	},
	{
		Keys: "`upstream_tls.server_name`", Default: "the host",
		Meaning: "name in the upstream's certificate",
	},
	{
		Keys: "`upstream_tls.insecure_skip_verify`", Default: "`false`",
		Meaning: "`true` accepts any certificate: an attacker in between can read everything",
	},
	{
		Keys: "`enabled`", Default: "`true`",
		Meaning: "`false`: new values are not compressed; compressed values are still decompressed",
	},
	{
		Keys: "`max_seal`", Default: "`32MiB`",
		Meaning: "longer values are not compressed; 1 to `512MiB`",
	},
	{
		Keys: "`max_open`", Default: "the larger of `max_seal` and `32MiB`",
		Meaning: "limit of a value's bytes after decompression; for longer ones the gateway returns an error, so that no envelope can need more memory than " +
			"this; at least `max_seal`, at most `512MiB`. Lowering `max_seal` keeps all values readable; don't lower " +
			"this below the longest value ever compressed",
	},
	{
		Keys: "`cpu_budget`", Default: "none",
		Meaning: "Redis, Tarantool, gRPC and MongoDB: limit of CPU time for compressing, `20%` or `0.2` of one core, `2` for two cores. When it would take " +
			"more, a share of the values gets a cheaper setting, see [below](#budgets). A reload changes it",
	},
	{
		Keys: "`latency_budget`", Default: "none",
		Meaning: "Redis, Tarantool, gRPC and MongoDB: limit of the latency that compressing adds to 99 of 100 values, such as `500us`; enforced in the same way. A " +
			"reload changes it",
	},
	{
		Keys: "`max_connections`", Default: "`10000`",
		Meaning: "client connections at a time, [shared by client address](#connections); further ones are refused",
	},
	{
		Keys: "`proxy_protocol`", Default: "`false`",
		Meaning: "`true`: clients connect through a load balancer, and every connection begins with a PROXY header, version 1 or 2 " +
			"(HAProxy's `send-proxy-v2`, AWS NLB's proxy protocol v2), before TLS. The log then shows clients by the " +
			"addresses in it. A connection without one is closed, after 5 s at the latest; a header has at most 4 KiB. " +
			"All listeners of a gateway expect it, those of a cluster's nodes too",
	},
	{
		Keys: "`proxy_from`", Default: "all",
		Meaning: "addresses and networks that may send such headers, `[10.0.1.0/24]`: connections from elsewhere are closed. " +
			"Without it only the balancer should reach the port, since logs trust the headers; [shares of the " +
			"memory](#memory) and of [connections](#connections) then go by the balancer's address, so that all its clients have one share",
	},
	{
		Keys: "`max_streams`", Default: "`1000`",
		Meaning: "gRPC, HTTP/2: concurrent calls on one client's connection; the client queues further calls",
	},
	{
		Keys: "`upstream_connections`", Default: "`8`",
		Meaning: "gRPC: maximum number of connections to the upstream, or of [links](PEER.md#clients-that-share-a-link) for each client " +
			"connection. A second is opened when 50 calls share the first, and so on. " +
			"[Clients that cancel many calls](GRPC.md#clients-share-the-upstream) have additional connections of their own, in up to four groups",
	},
	{
		Keys: "`upstream_encodings`", Default: "none",
		Meaning: "gRPC: encodings that the upstream certainly supports, such as `[gzip, zstd]`, or `cinch-proto`; others are " +
			"learnt, see [GRPC.md](GRPC.md). HTTP: content codings that it supports in requests, `[zstd, gzip, snappy]`, see [HTTP.md](HTTP.md)",
	},
	{
		Keys: "`upstream_host`", Default: "`false`",
		Meaning: "HTTP: `true` sends the upstream's own name as `Host`, instead of the client's `Host`",
	},
	{
		Keys: "`window`", Default: "`128KiB`",
		Meaning: "gRPC: how many bytes a call's sender may be ahead of its reader, on each side; 16KiB to 16MiB. A stalled " +
			"call holds at most that much in each direction, but at least 64KiB of a client's request, which HTTP/2 lets " +
			"it send before it learns of a smaller window. Tunnel, where the default is `8MiB`: maximum history of a stream, a " +
			"power of two from 64KiB to 8MiB",
	},
	{
		Keys: "`max_header`", Default: "`64KiB`",
		Meaning: "gRPC, HTTP: limit of the bytes of headers in one request or response; 4KiB to 16MiB",
	},
	{
		Keys: "`peers`", Default: "`false`",
		Meaning: "gRPC, HTTP and MongoDB: clients may be your own gateways, and open [links](PEER.md). " +
			"Give such a listener a `tls.client_ca`",
	},
	{
		Keys: "`link.history`", Default: "`client`; with `cpu_budget` or `latency_budget` `none`",
		Meaning: "gRPC, HTTP, MongoDB: if the upstream is a gateway with `peers`, connections to it are compressed as a whole (HTTP and MongoDB: " +
			"[bodies](HTTP.md#two-gateways) and [messages](MONGODB.md#a-gateway-at-each-end) that rules cover), with a history: `client`, one for " +
			"each client connection (MongoDB: for all from one client address), or `shared`, one for all clients; `none` for no links. See " +
			"[PEER.md](PEER.md#clients-that-share-a-link)",
	},
	{
		Keys: "`link.setting`", Default: "`zstd-3`",
		Meaning: "gRPC, HTTP, MongoDB: compression of what this end of a link sends, as for tunnels: `zstd-1` to `zstd-9`, `s2`, `minlz`, `lz4`, " +
			"`snappy`, `raw` or `auto`",
	},
	{
		Keys: "`link.window`", Default: "`8MiB`",
		Meaning: "gRPC, HTTP, MongoDB: maximum history of a link, in each direction; a power of two from 64KiB to 8MiB",
	},
	{
		Keys: "`link.memory`", Default: "`256MiB`",
		Meaning: "gRPC, HTTP, MongoDB: memory for the history of all links of the gateway, 1MiB or more. When it is used up, further links have no " +
			"history: with more than about [110 client connections](PEER.md#clients-that-share-a-link) of gRPC or HTTP raise it at both ends",
	},
	{
		Keys: "`sample`", Default: "`false`",
		Meaning: "gRPC, HTTP and MongoDB: measure all messages, by method (and path) or by namespace and command, and by direction, in memory; " +
			"numbers on the admin page and under `/api/messages`",
	},
	{
		Keys: "`standby`", Default: "none",
		Meaning: "MongoDB: a list of `host:port`, the standbys of other gateways to the replica set. The gateway is itself one " +
			"then: it answers handshakes and accepts no operations; `upstream` names all members. See " +
			"[MONGODB.md](MONGODB.md#how-to-connect)",
	},
	{
		Keys: "`advertise`", Default: "the listener's address",
		Meaning: "`host:port` of the gateway that servers announce to clients. MongoDB: for members of replica " +
			"sets, see [MONGODB.md](MONGODB.md). Redis Cluster and Sentinel: address of the first listener; the servers' ports " +
			"follow it",
	},
	{
		Keys: "`nodes`", Default: "`32`",
		Meaning: "Redis Cluster and Sentinel: maximum number of servers that get a listener, on as many ports after `listen`",
	},
	{
		Keys: "`sentinel`", Default: "none",
		Meaning: "Redis with Sentinel: where clients ask for the primary, see [REDIS.md](REDIS.md#sentinel)",
	},
	{
		Keys: "`sql`", Default: "`refuse`",
		Meaning: "Tarantool: SQL statements that may name spaces that have rules: none (`refuse`), `SELECT` of columns with " +
			"conditions on others than those with rules (`projection`), all (`pass`); see " +
			"[TARANTOOL.md](TARANTOOL.md#sql)",
	},
	{
		Keys: "`shards`", Default: "as the server reports",
		Meaning: "Tarantool: URLs of the masters of all shards between which tuples move, including the gateway's own; `none` " +
			"for a server without other shards, whatever it reports. URLs without a user get the upstream's user. A reload changes " +
			"it. See [TARANTOOL.md](TARANTOOL.md#shards)",
	},
	{
		Keys: "`state_file`", Default: "none",
		Meaning: "PostgreSQL: file in which the gateway records the server to which it has moved clients. After a restart it uses that server, " +
			"whatever `upstream` says. Without it clients can't be moved; see [POSTGRES.md](POSTGRES.md)",
	},
	{
		Keys: "`users_file`", Default: "none",
		Meaning: "PostgreSQL: file with clients' credentials, in the format of PgBouncer's `userlist.txt`, to log them in at another " +
			"server",
	},
	{
		Keys: "`auth_query`", Default: "reads `pg_authid`",
		Meaning: "PostgreSQL: query for the same, sent to the new server by the gateway's user, the one in the `upstream` URL. `$1` " +
			"is the user; the answer is a row of the user and its password or verifier",
	},
	{
		Keys: "`setting`", Default: "`auto`",
		Meaning: "tunnel, both ends, each for the data that it sends: `zstd-1` to `zstd-9`, `s2`, `minlz`, `lz4`, `snappy`, `raw`, or " +
			"`auto`, which measures link and codecs; see [TUNNEL.md](TUNNEL.md)",
	},
	{
		Keys: "`history`", Default: "`256MiB`",
		Meaning: "tunnel: memory for the history of all streams of the gateway, 1MiB or more. When it is used up, further streams go " +
			"without history",
	},
	{
		Keys: "`links`", Default: "`4`",
		Meaning: "tunnel: links to the other end that are opened in advance, so that clients need not wait for handshakes; 0 to " +
			"1024",
	},
	{
		Keys: "`exclude`", Default: "none",
		Meaning: "patterns of keys that never hold compressed values, so the gateway need not check them: " +
			"keys that scripts build themselves, such as BullMQ's `bull:*`. Don't exclude keys that already hold compressed values",
	},
	{
		Keys: "`pack`", Default: "none",
		Meaning: "compresses existing data in the background: see below",
	},
	{
		Keys: "`rules`", Default: "none",
		Meaning: "which values to compress, and how: see below. Without rules nothing is compressed",
	},
}

// pack has the keys of background packing.
var pack = []Row{
	{
		Keys: "`background`", Default: "`false`",
		Meaning: "`true`: pack existing data in the background",
	},
	{
		Keys: "`mode`", Default: "`seal`",
		Meaning: "`estimate` replaces nothing: the metrics show what packing would save",
	},
	{
		Keys: "`every`", Default: "`6h`",
		Meaning: "pause between two passes. The next pass finds values that clients wrote without the gateway. A reload " +
			"changes it for later pauses",
	},
	{
		Keys: "`parallel`", Default: "`1`",
		Meaning: "pages of 256 keys to process at a time",
	},
	{
		Keys: "`keys_per_second`", Default: "`2000`",
		Meaning: "maximum number of keys to check in a second; `0`: no limit",
	},
	{
		Keys: "`bytes_per_second`", Default: "`10MiB`",
		Meaning: "maximum number of bytes of values to read in a second; `0`: no limit",
	},
	{
		Keys: "`max_latency`", Default: "`0s`",
		Meaning: "slow down when a PING takes longer than this; `0s`: longer than twice its best time plus 1 ms",
	},
	{
		Keys: "`skip_idle_below`", Default: "`0s`",
		Meaning: "skip keys that were used less than this time ago (Redis)",
	},
	{
		Keys: "`skip_freq_above`", Default: "`0`",
		Meaning: "skip keys whose LFU counter is above this (Redis servers with an LFU policy)",
	},
	{
		Keys: "`allow_recode`", Default: "`false`",
		Meaning: "compress the content of values that a client's library has compressed even if clients will get it back in other " +
			"bytes; for rules with a `format` (Redis)",
	},
	{
		Keys: "`state`", Default: "none",
		Meaning: "file for the position, so that a restart continues from there; one for each gateway",
	},
}
