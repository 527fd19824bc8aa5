package reference

// process has the keys of the whole process, and flags without a key.
var process = []Row{
	{
		Keys: "`admin.listen`", Default: "`127.0.0.1:9470`", Also: "`CINCH_ADMIN_LISTEN`, `--admin`",
		Meaning: "address of the admin page and `/metrics`, `unix:/path`, or `off`. On non-loopback addresses it only answers health probes, " +
			"unless one of the next two keys is set",
	},
	{
		Keys: "`admin.token_file`", Default: "none", Also: "`CINCH_ADMIN_TOKEN_FILE`, `--admin-token-file`",
		Meaning: "file with a token of 16 bytes or more, required for remote reads and for every action; read again " +
			"when it changes. See [METRICS.md](METRICS.md#who-may-read)",
	},
	{
		Keys: "`admin.tls`", Default: "none", Also: "",
		Meaning: "`cert`, `key` and `client_ca`, as for gateways; a client certificate signed by `client_ca` counts like " +
			"the token, and is optional",
	},
	{
		Keys: "`admin.hosts`", Default: "none", Also: "",
		Meaning: "on loopback: host names besides `localhost` under which browsers, or a proxy, may request the page",
	},
	{
		Keys: "`admin.ready`", Default: "`all`", Also: "`CINCH_ADMIN_READY`",
		Meaning: "gateways that must be ready for [`/readyz`](METRICS.md) to report ready: `all`, or `any`",
	},
	{
		Keys: "`history.path`", Default: "in memory", Also: "",
		Meaning: "directory, created if missing, for samples of the counters: every 10 s for a day, every " +
			"5 min for 90 days. They survive restarts and crashes, for [`cinch report`](REPORT.md) and [`/api/history`](METRICS.md#apihistory). " +
			"Each process needs its own directory. If it can't be used, the log says so and samples are kept in memory",
	},
	{
		Keys: "`history.max_size`", Default: "64MiB", Also: "",
		Meaning: "limit of the samples' bytes, at least `1MiB`; in memory never more than `8MiB`",
	},
	{
		Keys: "`traces.endpoint`", Default: "none", Also: "",
		Meaning: "URL of an OpenTelemetry collector's OTLP/HTTP receiver, `http://collector:4318`: receives spans of requests, those " +
			"of gRPC, MongoDB, Tarantool and Redis. Without it nothing is traced. See [METRICS.md](METRICS.md#traces)",
	},
	{
		Keys: "`traces.ratio`", Default: "`0`", Also: "",
		Meaning: "share of requests that are traced, `0.01` or `1%` for one in a hundred, if the client does not decide. If the client has " +
			"decided (W3C `traceparent`) the gateway follows",
	},
	{
		Keys: "`traces.max_per_second`", Default: "`100`", Also: "",
		Meaning: "maximum number of requests traced in a second, including those for which the client decides",
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
		Meaning: "number of availability zones that clients and servers are evenly spread over: with three, two thirds of the bytes cross zones. `1` if they share a zone, " +
			"or traffic is not billed: then compression costs CPU and saves no money on traffic",
	},
	{
		Keys: "`prices.cross_zone`", Default: "as `prices.zones` implies", Also: "",
		Meaning: "share of the traffic that crosses zones, if known: `100%` if clients and servers are never in the same zone",
	},
	{
		Keys: "`prices.file`", Default: "none", Also: "",
		Meaning: "YAML file with your own prices instead, as for `--prices` of [`cinch report`](REPORT.md) and [`cinch plan`](PLAN.md); a reload reads it again",
	},
	{
		Keys: "`log.level`", Default: "`info`", Also: "`CINCH_LOG_LEVEL`, `--log-level`",
		Meaning: "`debug`, `info`, `warn` or `error`; the log goes to standard error. `--quiet` means `warn`, unless the flag says otherwise. Of similar warnings and errors " +
			"(same text, gateway, class) ten are written in 10 s, then one with the number of the others (`repeated`)",
	},
	{
		Keys: "`log.format`", Default: "`text`", Also: "`CINCH_LOG_FORMAT`, `--log-format`",
		Meaning: "`text` or `json`",
	},
	{
		Keys: "`memory.budget`", Default: "`256MiB`", Also: "`CINCH_MEMORY_BUDGET`, `--memory`",
		Meaning: "memory for values in flight in the whole process, at least `1MiB`; see below",
	},
	{
		Keys: "`zstd`", Default: "`auto`", Also: "`CINCH_ZSTD`, `--zstd`",
		Meaning: "implementation: `libzstd` (needs a build with cgo), `go`, or `auto`: libzstd if it is built in",
	},
	{
		Keys: "`drain_delay`", Default: "`0s`", Also: "`CINCH_DRAIN_DELAY`, `--drain-delay`",
		Meaning: "time after the first signal during which clients are served as before, while `/readyz` answers 503, so that load " +
			"balancers can notice",
	},
	{
		Keys: "`drain_timeout`", Default: "`30s`", Also: "`CINCH_DRAIN_TIMEOUT`, `--drain-timeout`",
		Meaning: "time after the first signal for commands in flight to finish before connections are closed; it begins after `drain_delay`",
	},
	{
		Keys: "`drain_grace`", Default: "`2s`", Also: "`CINCH_DRAIN_GRACE`, `--drain-grace`",
		Meaning: "time that a drain waits for clients blocked in a command (`BLPOP`, `XREAD BLOCK`, a quiet stream); then they are disconnected as by a server that shuts down, [by protocol](UPGRADE.md#what-a-drain-does)",
	},
	{
		Keys: "", Default: "", Also: "`CINCH_CONFIG`, `--config`",
		Meaning: "the configuration file",
	},
	{
		Keys: "", Default: "", Also: "`CINCH_REDIS`, `--redis`",
		Meaning: "`LISTEN=URL`: more Redis gateways (the URL of a cluster also uses the ports after LISTEN), with the defaults " +
			"below; the variable takes several with spaces between them, the flag may be repeated",
	},
	{
		Keys: "", Default: "", Also: "`CINCH_GRPC`, `--grpc`",
		Meaning: "`LISTEN=URL`: more gRPC gateways, likewise; `?peers=true` after the URL stands for `peers: true`, which the far " +
			"gateway of a pair needs, and `history=none` for `link: {history: none}` (also `client`, `shared`). Their rule is all messages of " +
			"64 bytes or more, `zstd`",
	},
	{
		Keys: "", Default: "", Also: "`CINCH_HTTP`, `--http`",
		Meaning: "`LISTEN=URL`: more HTTP gateways, likewise; options of the URL are `upstream_encodings=zstd,gzip`, `upstream_host=true`, " +
			"`sample=true`, and `peers=true` and `history=none` as for `--grpc`. Their rule is all requests of 256 bytes or more, `auto`",
	},
	{
		Keys: "", Default: "", Also: "`CINCH_MONGO`, `--mongo`",
		Meaning: "`LISTEN=URI`: more MongoDB gateways, likewise; a URI with several hosts makes a gateway for each, on " +
			"consecutive ports. `peers=true` and `history=none` are options of the URI as for `--grpc`, and " +
			"`standby=HOST:PORT,…` adds a gateway with `standby` on the port after the " +
			"last. Their rule is all messages, `zstd-3`, `min_gain` 5%",
	},
	{
		Keys: "", Default: "", Also: "`CINCH_TARANTOOL`, `--tarantool`",
		Meaning: "`LISTEN=URL`: more Tarantool gateways, likewise; their rule is all fields of all spaces that the " +
			"server does not compute on, of 64 bytes or more, `zstd-3`, `dictionary: auto`",
	},
	{
		Keys: "", Default: "", Also: "`CINCH_POSTGRES`, `--postgres`",
		Meaning: "`LISTEN=URL`: more PostgreSQL gateways, likewise; they have no rules. `state_file`, `users_file` and " +
			"`auth_query` can be options of the URL. See [POSTGRES.md](POSTGRES.md)",
	},
	{
		Keys: "", Default: "", Also: "`CINCH_TUNNEL`, `--tunnel`",
		Meaning: "`LISTEN=PEER`: more tunnel entries, likewise; see [TUNNEL.md](TUNNEL.md)",
	},
	{
		Keys: "", Default: "", Also: "`CINCH_TUNNEL_EXIT`, `--tunnel-exit`",
		Meaning: "`LISTEN=UPSTREAM`: more tunnel exits, likewise",
	},
	{
		Keys: "", Default: "", Also: "`--rule`",
		Meaning: "`key=menu:*,setting=zstd-3`: a rule for the gateways of the flags above and the embedded store, with the " +
			"keys of a rule below; may be repeated; values can't contain commas",
	},
	{
		Keys: "", Default: "", Also: "`--listen`",
		Meaning: "address of the gateway to the embedded store, `127.0.0.1:6380`",
	},
	{
		Keys: "", Default: "", Also: "`--allow-open-listener`",
		Meaning: "`allow_open_listener: true` for the gateways of the flags above and the embedded store",
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
		Meaning: "file that `cinch dict train` wrote. It holds pieces of your data: keep it private, and keep it as long as any " +
			"value is compressed with it",
	},
}

// training has the keys of "dictionary: auto".
var training = []Row{
	{
		Keys: "`sample_memory`", Default: "`64MiB`",
		Meaning: "memory for sampled values, in the whole process; divided among the rules. A training holds its samples a " +
			"second time",
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
		Keys: "`min_samples`", Default: "`1000`",
		Meaning: "values that a training needs, at least 64. If fewer fill the memory, they are enough",
	},
	{
		Keys: "`min_saving`", Default: "`10%`",
		Meaning: "share of the bytes stored now that a new dictionary must save, its own size included",
	},
	{
		Keys: "`drift`", Default: "`15%`",
		Meaning: "training begins again when stored values are larger than measured at the last training by this share",
	},
	{
		Keys: "`interval`", Default: "`10m`",
		Meaning: "time between two trainings for a rule, in all gateways of a store. A dictionary that no longer fits " +
			"the values is replaced after a tenth of this time, once in four intervals. After a training without a useful dictionary " +
			"the time doubles, up to 64 times",
	},
	{
		Keys: "`poll`", Default: "`15s`",
		Meaning: "time between two checks for dictionaries that other gateways have announced",
	},
	{
		Keys: "`cpu`", Default: "`50%`",
		Meaning: "share of one core that a training may use",
	},
}
