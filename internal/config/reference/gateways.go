package reference

// gateways has the keys of a gateway. The meaning of keys for some protocols only begins with these.
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
		Meaning: "where clients connect",
	},
	{
		Keys: "`upstream`", Default: "needed",
		Meaning: "for gRPC `grpc://host:port`, `grpcs://…` for TLS, `unix:///path`; for HTTP `http://host[:port]`, `https://…`, " +
			"`h2c://host:port` for HTTP/2 without TLS; for MongoDB `mongodb://host[:port]`, with " +
			"`/?tls=true` for TLS; for Tarantool `tarantool://[user:password@]host[:port]` (port 3301 if not given); for " +
			"PostgreSQL `postgres://[user:password@]host[:port][/database]`, with `?sslmode=require`, `verify-ca` or " +
			"`verify-full` for TLS; for a tunnel `host:port` of the other end, for its exit `host:port` or `unix:///path` " +
			"of whatever it leads to, both `tls://host:port` for TLS; for Redis `redis://[user:password@]host[:port]`, " +
			"`rediss://…` for TLS, `unix:///path`, and for several servers `redis+cluster://host,host,…` " +
			"(`rediss+cluster://…`) or `redis+sentinel://sentinel,sentinel,…/name` (`rediss+sentinel://…`), see " +
			"[REDIS.md](REDIS.md#redis-cluster). The port is 6379 if not given. The credentials are the gateway's own; " +
			"clients bring theirs. A database is not part of it: clients select their own",
	},
	{
		Keys: "`tls.cert`, `tls.key`", Default: "plain",
		Meaning: "PEM files: clients connect by TLS. They are read again when they change",
	},
	{
		Keys: "`tls.client_ca`", Default: "none",
		Meaning: "PEM file: clients need a certificate signed by one of these",
	},
	{
		Keys: "`allow_open_listener`", Default: "`false`",
		Meaning: "Redis, MongoDB, Tarantool: `true` lets other machines reach a server on this machine (loopback, or a unix socket) that asks no " +
			"client for a password, with a warning in the log. Otherwise such a start is [refused](operations/SECURITY.md#open-listeners)",
	},
	{
		Keys: "`upstream_tls.ca`", Default: "the system's",
		Meaning: "PEM file of the authorities that may sign the upstream's certificate; `upstream_tls` needs a `rediss://`, " +
			"`grpcs://` or `mongodb://…/?tls=true` upstream",
	},
	{
		Keys: "`upstream_tls.cert`, `.key`", Default: "none",
		Meaning: "PEM files of the gateway's own certificate",
	},
	{
		Keys: "`upstream_tls.server_name`", Default: "the host",
		Meaning: "name that the upstream's certificate must have",
	},
	{
		Keys: "`upstream_tls.insecure_skip_verify`", Default: "`false`",
		Meaning: "`true` takes any certificate: an attacker in between can read everything",
	},
	{
		Keys: "`enabled`", Default: "`true`",
		Meaning: "`false`: nothing new is sealed, and everything that is sealed still opens",
	},
	{
		Keys: "`max_seal`", Default: "`32MiB`",
		Meaning: "longer values are not sealed; 1 to `512MiB`",
	},
	{
		Keys: "`max_open`", Default: "the larger of `max_seal` and `32MiB`",
		Meaning: "sealed values that were longer are answered with an error, so that no envelope can ask for more memory than " +
			"this; at least `max_seal`, at most `512MiB`. Lowering `max_seal` leaves everything readable; don't lower " +
			"this below what was ever sealed",
	},
	{
		Keys: "`cpu_budget`", Default: "none",
		Meaning: "Redis, Tarantool, gRPC and MongoDB: CPU time that compressing may take, `20%` or `0.2` of one core, `2` for two. When it would take " +
			"more, a share of the values gets a cheaper setting, see [below](#budgets). A reload changes it",
	},
	{
		Keys: "`latency_budget`", Default: "none",
		Meaning: "Redis, Tarantool, gRPC and MongoDB: time that compressing may add to 99 of 100 values, such as `500us`; kept in the same way. A " +
			"reload changes it",
	},
	{
		Keys: "`max_connections`", Default: "`10000`",
		Meaning: "client connections at a time, [shared by client address](#connections); further ones are refused",
	},
	{
		Keys: "`proxy_protocol`", Default: "`false`",
		Meaning: "`true`: a load balancer is in front, and every connection begins with a PROXY header, version 1 or 2 " +
			"(HAProxy's `send-proxy-v2`, AWS NLB's proxy protocol v2), before TLS. The log then names clients by the " +
			"addresses in it. A connection without one is closed, after 5 s at the latest; a header has at most 4 KiB. " +
			"All listeners of a gateway expect it, those of a cluster's nodes too",
	},
	{
		Keys: "`proxy_from`", Default: "all",
		Meaning: "addresses and networks that may send such headers, `[10.0.1.0/24]`: connections from elsewhere are closed. " +
			"Without it nobody but the balancer should reach the port, since logs name what headers say; [shares of the " +
			"memory](#memory) and of [connections](#connections) go by the balancer's own address then, so that all its clients have one share",
	},
	{
		Keys: "`max_streams`", Default: "`1000`",
		Meaning: "gRPC, HTTP/2: calls at a time on one client's connection; the client keeps further ones waiting",
	},
	{
		Keys: "`upstream_connections`", Default: "`8`",
		Meaning: "gRPC: connections to the upstream at most. A second is opened when 50 calls share the first, and so on. " +
			"[Clients that cancel much](GRPC.md#clients-share-the-upstream) have connections of their own beside these, in up to four groups",
	},
	{
		Keys: "`upstream_encodings`", Default: "none",
		Meaning: "gRPC: encodings that the upstream reads for sure, such as `[gzip, zstd]`, or `cinch-proto`; others are " +
			"learnt, see [GRPC.md](GRPC.md). HTTP: content codings that it reads in requests, `[zstd, gzip, snappy]`, see [HTTP.md](HTTP.md)",
	},
	{
		Keys: "`upstream_host`", Default: "`false`",
		Meaning: "HTTP: `true` tells the upstream its own name as `Host`, in place of what the client wrote",
	},
	{
		Keys: "`window`", Default: "`128KiB`",
		Meaning: "gRPC: bytes that a call's sender may be ahead of its reader, on each side; 16KiB to 16MiB. What a stalled " +
			"call holds is at most that much in each direction; of a client's request 64KiB at least, which HTTP/2 lets " +
			"it send before it knows of less. Tunnel, where the default is `8MiB`: what a stream remembers at most, a " +
			"power of two from 64KiB to 8MiB",
	},
	{
		Keys: "`max_header`", Default: "`64KiB`",
		Meaning: "gRPC, HTTP: bytes of the headers of one request or response; 4KiB to 16MiB",
	},
	{
		Keys: "`peers`", Default: "`false`",
		Meaning: "gRPC, HTTP and MongoDB: clients are gateways of yours, and may exchange dictionaries and make links, see " +
			"[GRPC.md](GRPC.md#dictionaries-between-two-gateways) and [MONGODB.md](MONGODB.md#a-gateway-at-each-end). " +
			"Give such a listener a `tls.client_ca`",
	},
	{
		Keys: "`link.history`", Default: "none",
		Meaning: "gRPC, HTTP: the upstream is a gateway with `peers`, and connections to it are compressed as a whole (of HTTP " +
			"the [bodies](HTTP.md#two-gateways)), with a history: `client`, each client's connection has one of its own, or `shared`, clients have one together; see " +
			"[GRPC.md](GRPC.md#a-link-between-two-gateways) before you share",
	},
	{
		Keys: "`link.setting`", Default: "`zstd-3`",
		Meaning: "gRPC, HTTP (`zstd` only): of what this end of a link sends, as for tunnels: `zstd-1` to `zstd-9`, `s2`, `minlz`, `lz4`, " +
			"`snappy`, `raw` or `auto`",
	},
	{
		Keys: "`link.window`", Default: "`8MiB`",
		Meaning: "gRPC, HTTP: what a link remembers at most, each way; a power of two from 64KiB to 8MiB",
	},
	{
		Keys: "`link.memory`", Default: "`256MiB`",
		Meaning: "gRPC, HTTP: memory for what all links of the gateway remember, 1MiB and more. Links that find none go without " +
			"history",
	},
	{
		Keys: "`sample`", Default: "`false`",
		Meaning: "gRPC, HTTP and MongoDB: measure all messages, by method (and path) or by namespace and command, and by direction, in memory; " +
			"numbers on the admin page and under `/api/messages`",
	},
	{
		Keys: "`standby`", Default: "none",
		Meaning: "MongoDB: a list of `host:port`, the standbys of other gateways to the replica set. The gateway is one itself " +
			"then: it answers handshakes and takes no operations; `upstream` names all members. See " +
			"[MONGODB.md](MONGODB.md#how-to-connect)",
	},
	{
		Keys: "`advertise`", Default: "the listener's address",
		Meaning: "`host:port` by which clients reach the gateway, as servers tell it to them. MongoDB: of members of replica " +
			"sets, see [MONGODB.md](MONGODB.md). Redis Cluster and Sentinel: of the first listener; the servers' ports " +
			"follow it",
	},
	{
		Keys: "`nodes`", Default: "`32`",
		Meaning: "Redis Cluster and Sentinel: most servers that get a listener, on as many ports behind `listen`",
	},
	{
		Keys: "`sentinel`", Default: "none",
		Meaning: "Redis with Sentinel: where clients ask for the primary, see [REDIS.md](REDIS.md#sentinel)",
	},
	{
		Keys: "`sql`", Default: "`refuse`",
		Meaning: "Tarantool: which statements may name spaces that have rules: none (`refuse`), `SELECT` of columns with " +
			"conditions on others than those with rules (`projection`), all (`pass`); see " +
			"[TARANTOOL.md](TARANTOOL.md#sql)",
	},
	{
		Keys: "`shards`", Default: "the server is asked",
		Meaning: "Tarantool: URLs of the masters of all shards between which tuples move, the gateway's own among them; `none` " +
			"for a server that stands alone whatever it says. URLs without a user get the upstream's. A reload changes " +
			"it. See [TARANTOOL.md](TARANTOOL.md#shards)",
	},
	{
		Keys: "`state_file`", Default: "none",
		Meaning: "PostgreSQL: where the gateway writes down which server it has moved clients to. Started again it goes there, " +
			"whatever `upstream` says. Without it clients can't be moved; see [POSTGRES.md](POSTGRES.md)",
	},
	{
		Keys: "`users_file`", Default: "none",
		Meaning: "PostgreSQL: what clients log in with, in the format of PgBouncer's `userlist.txt`; to log them in at another " +
			"server",
	},
	{
		Keys: "`auth_query`", Default: "of `pg_authid`",
		Meaning: "PostgreSQL: the same, asked of the new server by the gateway's own user, the one of the `upstream` URL. `$1` " +
			"is the user; the answer is a row of the user and its password or verifier",
	},
	{
		Keys: "`setting`", Default: "`auto`",
		Meaning: "tunnel, both ends, each for what it sends: `zstd-1` to `zstd-9`, `s2`, `minlz`, `lz4`, `snappy`, `raw`, or " +
			"`auto`, which measures link and codecs; see [TUNNEL.md](TUNNEL.md)",
	},
	{
		Keys: "`history`", Default: "`256MiB`",
		Meaning: "tunnel: memory for what all streams of the gateway remember, 1MiB and more. Streams that find none go " +
			"without history",
	},
	{
		Keys: "`links`", Default: "`4`",
		Meaning: "tunnel: links to the other end that are made in advance, so that clients need not wait for handshakes; 0 to " +
			"1024",
	},
	{
		Keys: "`exclude`", Default: "none",
		Meaning: "patterns of keys that never hold sealed values, so the gateway need not look at them: " +
			"keys that scripts build themselves, such as BullMQ's `bull:*`. Don't exclude keys that hold sealed values already",
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
		Meaning: "`true`: do it",
	},
	{
		Keys: "`mode`", Default: "`seal`",
		Meaning: "`estimate` replaces nothing: the metrics say what sealing would save",
	},
	{
		Keys: "`every`", Default: "`6h`",
		Meaning: "pause from the end of a pass to the next. What clients write past the gateway is found then. A reload " +
			"changes it for the pauses to come",
	},
	{
		Keys: "`parallel`", Default: "`1`",
		Meaning: "pages of 256 keys in work at a time",
	},
	{
		Keys: "`keys_per_second`", Default: "`2000`",
		Meaning: "look at no more keys; `0`: no limit",
	},
	{
		Keys: "`bytes_per_second`", Default: "`10MiB`",
		Meaning: "read no more; `0`: no limit",
	},
	{
		Keys: "`max_latency`", Default: "`0s`",
		Meaning: "slow down when a PING takes longer; `0s`: than twice what it took at best, and 1 ms more",
	},
	{
		Keys: "`skip_idle_below`", Default: "`0s`",
		Meaning: "pass over keys that were used less than that ago (Redis)",
	},
	{
		Keys: "`skip_freq_above`", Default: "`0`",
		Meaning: "pass over keys whose LFU counter is above that (Redis servers with an LFU policy)",
	},
	{
		Keys: "`allow_recode`", Default: "`false`",
		Meaning: "seal the content of values that a client's library has compressed even where clients will get it back in other " +
			"bytes; for rules with a `format` (Redis)",
	},
	{
		Keys: "`state`", Default: "none",
		Meaning: "file for the position, so that a restart goes on from there; one for each gateway",
	},
}
