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
		Meaning: "[URL](#upstream) of the server, by protocol: `redis://user@host:6379`. The credentials are for the gateway; clients " +
			"log in with their own",
	},
	{
		Keys: "`tls.cert`, `tls.key`", Default: "plain",
		Meaning: "PEM files; with them clients connect by TLS. They are read again when they change",
	},
	{
		Keys: "`tls.client_ca`", Default: "none",
		Meaning: "PEM file with CA certificates: clients need a certificate signed by one of them",
	},
	{
		Keys: "`allow_open_listener`", Default: "`false`",
		Meaning: "Redis, MongoDB, Tarantool: `true` lets other machines reach a server on this machine (loopback, or a unix socket) " +
			"that requires no password. Otherwise the gateway [refuses to start](operations/SECURITY.md#open-listeners)",
	},
	{
		Keys: "`upstream_tls.ca`", Default: "system roots",
		Meaning: "PEM file with the CA certificates for the upstream; needs an upstream with TLS",
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
		Meaning: "longer values, decompressed, are an error; `max_seal` to `512MiB`. Don't lower it below the longest value ever " +
			"compressed",
	},
	{
		Keys: "`cpu_budget`", Default: "none",
		Meaning: "Redis, Tarantool, gRPC, HTTP and MongoDB: CPU time for compressing, `20%` or `0.2` of one core, `2` for two cores; " +
			"see [budgets](#budgets). A reload changes it",
	},
	{
		Keys: "`latency_budget`", Default: "none",
		Meaning: "the same for the latency that compressing adds to 99 of 100 values, such as `500us`",
	},
	{
		Keys: "`max_connections`", Default: "`10000`",
		Meaning: "client connections at a time, [shared by client address](#connections)",
	},
	{
		Keys: "`proxy_protocol`", Default: "`false`",
		Meaning: "`true`: every connection, also to nodes of a cluster, must begin with a PROXY header, version 1 or 2 (HAProxy's " +
			"`send-proxy-v2`), before TLS, within 5 s, of at most 4 KiB",
	},
	{
		Keys: "`proxy_from`", Default: "all",
		Meaning: "addresses and networks that may connect and send such headers, `[10.0.1.0/24]`. Without it let only the balancer " +
			"reach the port; shares of [memory](#memory) and [connections](#connections) then go by its address",
	},
	{
		Keys: "`max_streams`", Default: "`1000`",
		Meaning: "gRPC, HTTP/2: concurrent calls on one client's connection; the client queues further calls",
	},
	{
		Keys: "`upstream_connections`", Default: "`auto`",
		Meaning: "gRPC: most connections to the upstream (`auto` is `8`), or [links](PEER.md#clients-that-share-a-link) for each client connection; " +
			"one is added for 50 calls. [Clients that cancel many calls](GRPC.md#cancelled-calls) have more of their own, in up " +
			"to four groups. Redis, one server: most connections that the clients of one login, database and protocol version " +
			"[share](REDIS.md#shared-connections); one is added for 200 clients. `auto` is `64`, after four " +
			"clients with a connection each; with `off` each client has its own",
	},
	{
		Keys: "`upstream_encodings`", Default: "none",
		Meaning: "gRPC: encodings that the upstream certainly supports, such as `[gzip, zstd]`, or `cinch-proto`; others are " +
			"[learnt](GRPC.md). HTTP: content codings that it supports in requests, `[zstd, gzip, snappy]`",
	},
	{
		Keys: "`upstream_host`", Default: "`false`",
		Meaning: "HTTP: `true` sends the upstream's own name as `Host`, instead of the client's",
	},
	{
		Keys: "`window`", Default: "`128KiB`",
		Meaning: "gRPC: how many bytes a call's sender may be ahead of its reader, on each side; 16KiB to 16MiB. A stalled call holds " +
			"at most that much each way, of a client's request up to 64KiB in any case. Tunnel, default `8MiB`: maximum history " +
			"of a stream, a power of two from 64KiB to 8MiB",
	},
	{
		Keys: "`max_header`", Default: "`64KiB`",
		Meaning: "gRPC, HTTP: limit of the headers of one request or response; 4KiB to 16MiB",
	},
	{
		Keys: "`peers`", Default: "`false`",
		Meaning: "gRPC, HTTP and MongoDB: clients may be your own gateways, and open [links](PEER.md). Outside loopback this " +
			"needs `peer_key_file`, `tls.client_ca` or `insecure_peers`",
	},
	{
		Keys: "`peer_key_file`", Default: "none",
		Meaning: "gRPC, HTTP, MongoDB, both ends of tunnels: file with a key of 16 to 1,024 bytes, which " +
			"`head -c 32 /dev/urandom | base64` makes. This gateway and those at the other ends of its links " +
			"[prove to each other](PEER.md#shared-key) that they have the same one; without that there is no link. A " +
			"newline at its end does not count. The file is read at the start only: another key needs a restart",
	},
	{
		Keys: "`insecure_peers`", Default: "`false`",
		Meaning: "`true` allows `peers`, or a `tunnel-exit`, outside loopback without `peer_key_file` and `tls.client_ca`, with a " +
			"warning in the log: any client may open links. Otherwise the gateway [refuses to start](operations/SECURITY.md#peers)",
	},
	{
		Keys: "`link.history`", Default: "`client`; with `cpu_budget` or `latency_budget` `none`",
		Meaning: "gRPC, HTTP, MongoDB: if the upstream is a gateway with `peers`, connections to it are compressed as a whole (HTTP " +
			"and MongoDB: what rules cover), with a history: `client`, one for each client connection (MongoDB: client address), " +
			"`shared`, one for all clients; `none`: no links. See [PEER.md](PEER.md#clients-that-share-a-link)",
	},
	{
		Keys: "`link.setting`", Default: "`zstd-3`",
		Meaning: "gRPC, HTTP, MongoDB: compression of what this end sends, as `setting` of tunnels",
	},
	{
		Keys: "`link.window`", Default: "`8MiB`",
		Meaning: "gRPC, HTTP, MongoDB: maximum history of a link, in each direction; a power of two from 64KiB to 8MiB",
	},
	{
		Keys: "`link.memory`", Default: "`256MiB`",
		Meaning: "gRPC, HTTP, MongoDB: memory for the history of all links of the gateway, 1MiB or more. Raise it at both ends with " +
			"more than about [80 client connections](PEER.md#clients-that-share-a-link) of gRPC or HTTP: further links have no " +
			"history",
	},
	{
		Keys: "`sample`", Default: "`false`",
		Meaning: "gRPC, HTTP and MongoDB: measure all messages by kind, for the admin page and " +
			"[`/api/messages`](METRICS.md#apimessages)",
	},
	{
		Keys: "`standby`", Default: "none",
		Meaning: "MongoDB: `host:port` of the standbys of other gateways to the replica set. The gateway is itself one then, and " +
			"accepts no operations; `upstream` names all members. See [MONGODB.md](MONGODB.md#how-to-connect)",
	},
	{
		Keys: "`advertise`", Default: "the listener's address",
		Meaning: "`host:port` that servers announce to clients in place of their own. [MongoDB](MONGODB.md): members of replica sets. " +
			"Redis Cluster and Sentinel: address of the first listener; the others follow it",
	},
	{
		Keys: "`nodes`", Default: "`32`",
		Meaning: "Redis Cluster and Sentinel: most servers that get a listener, on as many ports after `listen`",
	},
	{
		Keys: "`sentinel`", Default: "none",
		Meaning: "Redis with Sentinel: address where clients ask for the primary, see [REDIS.md](REDIS.md#sentinel)",
	},
	{
		Keys: "`sql`", Default: "`refuse`",
		Meaning: "Tarantool: [SQL](TARANTOOL.md#sql) that may name spaces that have rules: `refuse` (none), `projection`, `pass` (all)",
	},
	{
		Keys: "`shards`", Default: "as the server reports",
		Meaning: "Tarantool: URLs of the masters of all [shards](TARANTOOL.md#shards), including the gateway's own, by default with " +
			"the upstream's user; `none` for a server without other shards. A reload changes it",
	},
	{
		Keys: "`state_file`", Default: "none",
		Meaning: "PostgreSQL: file for the server to which clients were moved, which wins over `upstream` after a restart. Without it " +
			"clients can't be moved; see [POSTGRES.md](POSTGRES.md)",
	},
	{
		Keys: "`users_file`", Default: "none",
		Meaning: "PostgreSQL: file with clients' credentials, as PgBouncer's `userlist.txt`, to log them in at another server",
	},
	{
		Keys: "`auth_query`", Default: "reads `pg_authid`",
		Meaning: "PostgreSQL: query for the same, sent to the new server by the user of the `upstream` URL. `$1` is the user; the " +
			"answer is a row of the user and its password or verifier",
	},
	{
		Keys: "`setting`", Default: "`auto`",
		Meaning: "tunnel, both ends, each for what it sends: `zstd-1` to `zstd-9`, `s2`, `minlz`, `lz4`, `snappy`, `raw`, or `auto`, " +
			"which [measures](TUNNEL.md#choosing-a-setting) link and codecs",
	},
	{
		Keys: "`history`", Default: "`256MiB`",
		Meaning: "tunnel: memory for the history of all streams of the gateway, 1MiB or more. Beyond it streams have no history",
	},
	{
		Keys: "`links`", Default: "`4`",
		Meaning: "tunnel: links to the other end opened in advance, so that clients need not wait for handshakes; 0 to 1024",
	},
	{
		Keys: "`exclude`", Default: "none",
		Meaning: "patterns of keys that the gateway leaves alone, such as those that scripts build themselves (BullMQ's `bull:*`). " +
			"Don't exclude keys that already hold compressed values",
	},
	{
		Keys: "`pack`", Default: "none",
		Meaning: "compresses existing data [in the background](#pack)",
	},
	{
		Keys: "`rules`", Default: "none",
		Meaning: "which values to compress, and how: [below](#rules). Without rules nothing is compressed",
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
		Meaning: "pause between two passes. A reload changes it for later pauses",
	},
	{
		Keys: "`parallel`", Default: "`1`",
		Meaning: "pages of 256 keys to process at a time",
	},
	{
		Keys: "`keys_per_second`", Default: "`2000`",
		Meaning: "most keys to check in a second; `0`: no limit",
	},
	{
		Keys: "`bytes_per_second`", Default: "`10MiB`",
		Meaning: "most bytes of values to read in a second; `0`: no limit",
	},
	{
		Keys: "`max_latency`", Default: "`0s`",
		Meaning: "slow down when a PING takes longer than this; `0s`: longer than twice its best time plus 1 ms",
	},
	{
		Keys: "`skip_idle_below`", Default: "`0s`",
		Meaning: "Redis: skip keys that were used less than this time ago",
	},
	{
		Keys: "`skip_freq_above`", Default: "`0`",
		Meaning: "Redis with an LFU policy: skip keys whose LFU counter is above this",
	},
	{
		Keys: "`allow_recode`", Default: "`false`",
		Meaning: "Redis, rules with a `format`: compress also values that clients will get back [in other " +
			"bytes](PACK.md#values-that-a-library-has-compressed)",
	},
	{
		Keys: "`state`", Default: "none",
		Meaning: "file for the position, so that a restart continues from there; one for each gateway",
	},
}
