package reference

// process has the keys of the whole process, and flags without a key.
var process = []Row{
	{
		Keys: "`admin.listen`", Default: "`127.0.0.1:9470`", Also: "`CINCH_ADMIN_LISTEN`, `--admin`",
		Meaning: "address of the admin page and `/metrics`, `unix:/path`, or `off`. Beyond loopback it answers only health probes, " +
			"unless one of the next two keys is set",
	},
	{
		Keys: "`admin.token_file`", Default: "none", Also: "`CINCH_ADMIN_TOKEN_FILE`, `--admin-token-file`",
		Meaning: "file with a token of 16 bytes or more for remote reads and all actions, read again when it changes; see " +
			"[METRICS.md](METRICS.md#who-may-read)",
	},
	{
		Keys: "`admin.tls`", Default: "none", Also: "",
		Meaning: "`cert`, `key` and `client_ca`, as for gateways; a client certificate counts like the token, and is optional",
	},
	{
		Keys: "`admin.hosts`", Default: "none", Also: "",
		Meaning: "on loopback: host names besides `localhost` under which browsers or a proxy may request the page",
	},
	{
		Keys: "`admin.ready`", Default: "`all`", Also: "`CINCH_ADMIN_READY`",
		Meaning: "gateways that must be ready for [`/readyz`](METRICS.md#readyz): `all`, or `any`",
	},
	{
		Keys: "`history.path`", Default: "in memory", Also: "",
		Meaning: "directory for samples of the counters over 90 days ([`cinch report`](REPORT.md), " +
			"[`/api/history`](METRICS.md#apihistory)), one for each process, created if missing. If it can't be used, they stay " +
			"in memory; the log says so",
	},
	{
		Keys: "`history.max_size`", Default: "64MiB", Also: "",
		Meaning: "limit of the samples, at least `1MiB`; in memory at most `8MiB`",
	},
	{
		Keys: "`traces.endpoint`", Default: "none", Also: "",
		Meaning: "OTLP/HTTP receiver of an OpenTelemetry collector, `http://collector:4318`, for [spans](METRICS.md#traces). Without " +
			"it nothing is traced",
	},
	{
		Keys: "`traces.ratio`", Default: "`0`", Also: "",
		Meaning: "share of requests to trace, `0.01` or `1%`, unless the client decides (W3C `traceparent`)",
	},
	{
		Keys: "`traces.max_per_second`", Default: "`100`", Also: "",
		Meaning: "limit of requests traced in a second, also of those for which the client decides",
	},
	{
		Keys: "`traces.service`", Default: "`cinch`", Also: "",
		Meaning: "`service.name` of the spans",
	},
	{
		Keys: "`prices.cloud`", Default: "`aws`", Also: "",
		Meaning: "cloud whose list prices between zones the admin page uses for [money](METRICS.md#money): `aws`, `azure` or `gcp`",
	},
	{
		Keys: "`prices.zones`", Default: "`3`", Also: "",
		Meaning: "availability zones over which clients and servers are evenly spread: with three, two thirds of the bytes cross " +
			"zones. `1` if they share a zone, or traffic is not billed",
	},
	{
		Keys: "`prices.cross_zone`", Default: "as `prices.zones` implies", Also: "",
		Meaning: "share of the traffic that crosses zones, if known, up to `100%`",
	},
	{
		Keys: "`prices.file`", Default: "none", Also: "",
		Meaning: "YAML file with [your own prices](METRICS.md#money) instead; a reload reads it again",
	},
	{
		Keys: "`log.level`", Default: "`info`", Also: "`CINCH_LOG_LEVEL`, `--log-level`",
		Meaning: "`debug`, `info`, `warn` or `error`, to standard error. `--quiet` means `warn`, unless the flag says otherwise. Of " +
			"similar warnings and errors ten are written in 10 s, then the number of the others (`repeated`)",
	},
	{
		Keys: "`log.format`", Default: "`text`", Also: "`CINCH_LOG_FORMAT`, `--log-format`",
		Meaning: "`text` or `json`",
	},
	{
		Keys: "`memory.budget`", Default: "`256MiB`", Also: "`CINCH_MEMORY_BUDGET`, `--memory`",
		Meaning: "[memory](#memory) for values in flight in the whole process, at least `1MiB`",
	},
	{
		Keys: "`zstd`", Default: "`auto`", Also: "`CINCH_ZSTD`, `--zstd`",
		Meaning: "implementation: `libzstd` (needs a build with cgo), `go`, or `auto`: libzstd if it is built in. Short messages of MongoDB always use `go`",
	},
	{
		Keys: "`drain_delay`", Default: "`0s`", Also: "`CINCH_DRAIN_DELAY`, `--drain-delay`",
		Meaning: "time after the first signal during which clients are served while `/readyz` answers 503, so that load balancers " +
			"notice",
	},
	{
		Keys: "`drain_timeout`", Default: "`30s`", Also: "`CINCH_DRAIN_TIMEOUT`, `--drain-timeout`",
		Meaning: "time after `drain_delay` for commands in flight to finish before connections are closed",
	},
	{
		Keys: "`drain_grace`", Default: "`2s`", Also: "`CINCH_DRAIN_GRACE`, `--drain-grace`",
		Meaning: "time that a drain waits for clients blocked in a command (`BLPOP`, `XREAD BLOCK`, a quiet stream) before it " +
			"disconnects them, [by protocol](UPGRADE.md#what-a-drain-does)",
	},
	{
		Keys: "", Default: "", Also: "`CINCH_CONFIG`, `--config`",
		Meaning: "the configuration file",
	},
	{
		Keys: "", Default: "", Also: "`CINCH_REDIS`, `--redis`",
		Meaning: "`LISTEN=URL`: one more Redis gateway (for a cluster also on the ports after LISTEN). The variable takes several with " +
			"spaces between them, the flag may be repeated. Likewise the next seven",
	},
	{
		Keys: "", Default: "", Also: "`CINCH_GRPC`, `--grpc`",
		Meaning: "gRPC; options of the URL: `peers=true`, and `history=none` (also `client`, `shared`) for `link.history`. Rule: all " +
			"messages of 64 bytes or more, `zstd`",
	},
	{
		Keys: "", Default: "", Also: "`CINCH_HTTP`, `--http`",
		Meaning: "HTTP; options as for `--grpc`, and `upstream_encodings=zstd,gzip`, `upstream_host=true`, `sample=true`. Rule: all " +
			"requests of 256 bytes or more, `auto`",
	},
	{
		Keys: "", Default: "", Also: "`CINCH_MONGO`, `--mongo`",
		Meaning: "MongoDB, a gateway for each host of the URI, on consecutive ports; options as for `--grpc`, and " +
			"`standby=HOST:PORT,…`: one more gateway, with `standby`, on the next port. Rule: all messages, `zstd-3`, `min_gain` " +
			"5%",
	},
	{
		Keys: "", Default: "", Also: "`CINCH_TARANTOOL`, `--tarantool`",
		Meaning: "Tarantool. Rule: all fields of 64 bytes or more that the server does not compute on, `zstd-3`, `dictionary: auto`",
	},
	{
		Keys: "", Default: "", Also: "`CINCH_POSTGRES`, `--postgres`",
		Meaning: "PostgreSQL, without rules; options of the URL: `state_file`, `users_file`, `auth_query`",
	},
	{
		Keys: "", Default: "", Also: "`CINCH_TUNNEL`, `--tunnel`",
		Meaning: "`LISTEN=PEER`: a tunnel's entry",
	},
	{
		Keys: "", Default: "", Also: "`CINCH_TUNNEL_EXIT`, `--tunnel-exit`",
		Meaning: "`LISTEN=UPSTREAM`: a tunnel's exit",
	},
	{
		Keys: "", Default: "", Also: "`--rule`",
		Meaning: "`key=menu:*,setting=zstd-3`: a rule for the gateways of these flags and the embedded store; may be repeated; values " +
			"can't contain commas",
	},
	{
		Keys: "", Default: "", Also: "`--listen`",
		Meaning: "address of the gateway to the embedded store, `127.0.0.1:6380`",
	},
	{
		Keys: "", Default: "", Also: "`--allow-open-listener`",
		Meaning: "`allow_open_listener: true` for the same gateways",
	},
	{
		Keys: "", Default: "", Also: "`CINCH_PEER_KEY_FILE`, `--peer-key-file`",
		Meaning: "`peer_key_file` for the gateways of the flags above",
	},
	{
		Keys: "", Default: "", Also: "`--insecure-peers`",
		Meaning: "`insecure_peers: true` for those that accept links",
	},
	{
		Keys: "", Default: "", Also: "`--pprof`",
		Meaning: "serve profiles under `/debug/pprof/` on the admin address",
	},
}

// dictionaries has the keys of a dictionary from a file.
var dictionaries = []Row{
	{
		Keys: "`name`", Default: "needed",
		Meaning: "name in rules; `auto` is reserved",
	},
	{
		Keys: "`file`", Default: "needed",
		Meaning: "file of `cinch dict train`. It holds pieces of your data: keep it private, and as long as any value needs it",
	},
}

// training has the keys of "dictionary: auto".
var training = []Row{
	{
		Keys: "`sample_memory`", Default: "`64MiB`",
		Meaning: "memory for sampled values in the whole process, divided among the rules. A training holds its samples a second time",
	},
	{
		Keys: "`rule_memory`", Default: "`8MiB`",
		Meaning: "limit of that memory for one rule",
	},
	{
		Keys: "`max_sample`", Default: "`128KiB`",
		Meaning: "longer values, and values above a 64th of the rule's memory, are not sampled",
	},
	{
		Keys: "`min_samples`", Default: "`100`",
		Meaning: "values that a first training needs, at least 64. If fewer fill the memory, they are enough. [Others](DICTIONARIES.md#automatic-training) follow",
	},
	{
		Keys: "`min_saving`", Default: "`10%`",
		Meaning: "share of the bytes stored now that a new dictionary must save, its own size included (2% if it replaces one that was trained on fewer of the same values)",
	},
	{
		Keys: "`drift`", Default: "`15%`",
		Meaning: "training begins again when stored values are larger than at the last training by this share",
	},
	{
		Keys: "`interval`", Default: "`10m`",
		Meaning: "time between two trainings for a rule, in all gateways of a store (a tenth of it before the thorough training after a " +
			"quick one, and if values no longer fit, once in four). After a thorough training without a useful dictionary it doubles, up to 64 times; quick ones look for values of another shape meanwhile, once in a tenth of it",
	},
	{
		Keys: "`poll`", Default: "`15s`",
		Meaning: "time between two checks for dictionaries of other gateways",
	},
	{
		Keys: "`cpu`", Default: "`50%`",
		Meaning: "share of one core that a training may use",
	},
}
