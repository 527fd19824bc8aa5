package reference

// process has the keys of the whole process, and flags without a key.
var process = []Row{
	{
		Keys: "`admin.listen`", Default: "`127.0.0.1:9470`", Also: "`CINCH_ADMIN_LISTEN`, `--admin`",
		Meaning: "address of the admin page and `/metrics`, `unix:/path`, or `off`. Off loopback it answers probes only, " +
			"unless one of the next two is given",
	},
	{
		Keys: "`admin.token_file`", Default: "none", Also: "`CINCH_ADMIN_TOKEN_FILE`, `--admin-token-file`",
		Meaning: "file with a token of 16 bytes and more, which readers off loopback bring, and actions everywhere; read again " +
			"when it changes. See [METRICS.md](METRICS.md#who-may-read)",
	},
	{
		Keys: "`admin.tls`", Default: "none", Also: "",
		Meaning: "`cert`, `key` and `client_ca`, as for gateways; a client certificate that `client_ca` has signed counts as " +
			"the token does, and may be missing",
	},
	{
		Keys: "`admin.hosts`", Default: "none", Also: "",
		Meaning: "on loopback: names besides `localhost` by which browsers, or a proxy in front, ask for the page",
	},
	{
		Keys: "`admin.ready`", Default: "`all`", Also: "`CINCH_ADMIN_READY`",
		Meaning: "how many gateways have to be ready for [`/readyz`](METRICS.md) to say so: `all`, or `any`",
	},
	{
		Keys: "`history.path`", Default: "in memory", Also: "",
		Meaning: "directory, made if it is missing, in which samples of what is counted are kept: every 10 s for a day, every " +
			"5 min for 90 days. They survive restarts and crashes, for [`cinch report`](REPORT.md) and [`/api/history`](METRICS.md#apihistory). " +
			"Each process has a directory of its own. Where it can't be used the log says so, and samples are held in memory",
	},
	{
		Keys: "`history.max_size`", Default: "64MiB", Also: "",
		Meaning: "most bytes of them, at least `1MiB`; in memory never more than `8MiB`",
	},
	{
		Keys: "`traces.endpoint`", Default: "none", Also: "",
		Meaning: "URL of an OpenTelemetry collector's OTLP/HTTP receiver, `http://collector:4318`: spans of requests go there, those " +
			"of gRPC, MongoDB, Tarantool and Redis. Nothing is traced without it. See [METRICS.md](METRICS.md#traces)",
	},
	{
		Keys: "`traces.ratio`", Default: "`0`", Also: "",
		Meaning: "share of requests that are traced, `0.01` or `1%` for one in a hundred, of those whose client says nothing about it. Where the client has " +
			"decided (W3C `traceparent`) the gateway follows",
	},
	{
		Keys: "`traces.max_per_second`", Default: "`100`", Also: "",
		Meaning: "most requests that are traced in a second, whoever asks for it",
	},
	{
		Keys: "`traces.service`", Default: "`cinch`", Also: "",
		Meaning: "`service.name` of the spans",
	},
	{
		Keys: "`prices.cloud`", Default: "`aws`", Also: "",
		Meaning: "whose list prices between zones the admin page takes for [money](METRICS.md#money): `aws`, `azure` or `gcp`",
	},
	{
		Keys: "`prices.zones`", Default: "`3`", Also: "",
		Meaning: "how many availability zones clients and servers are spread over, alike: of three, two thirds of the bytes cross. `1` where they share a zone, " +
			"or nobody bills traffic: then compression costs CPU and saves no money on traffic",
	},
	{
		Keys: "`prices.cross_zone`", Default: "as `prices.zones` says", Also: "",
		Meaning: "share of the traffic that crosses zones, where it is known: `100%` where clients and servers are never in the same zone",
	},
	{
		Keys: "`prices.file`", Default: "none", Also: "",
		Meaning: "YAML with prices of your own in place of those, as `--prices` of [`cinch report`](REPORT.md) and [`cinch plan`](PLAN.md) takes; read again by a reload",
	},
	{
		Keys: "`log.level`", Default: "`info`", Also: "`CINCH_LOG_LEVEL`, `--log-level`",
		Meaning: "`debug`, `info`, `warn` or `error`; the log goes to standard error. `--quiet` means `warn`, unless the flag says otherwise. Of warnings and errors that are alike " +
			"(text, gateway, class) ten are written in 10 s, then one that says how many it stands for (`repeated`)",
	},
	{
		Keys: "`log.format`", Default: "`text`", Also: "`CINCH_LOG_FORMAT`, `--log-format`",
		Meaning: "`text` or `json`",
	},
	{
		Keys: "`memory.budget`", Default: "`256MiB`", Also: "`CINCH_MEMORY_BUDGET`, `--memory`",
		Meaning: "bytes of values in flight in the whole process, at least `1MiB`; see below",
	},
	{
		Keys: "`zstd`", Default: "`auto`", Also: "`CINCH_ZSTD`, `--zstd`",
		Meaning: "implementation: `libzstd` (needs a build with cgo), `go`, or `auto`: libzstd where it is built in",
	},
	{
		Keys: "`drain_delay`", Default: "`0s`", Also: "`CINCH_DRAIN_DELAY`, `--drain-delay`",
		Meaning: "how long after the first signal clients are served as before, while `/readyz` says 503: the time that load " +
			"balancers need to notice",
	},
	{
		Keys: "`drain_timeout`", Default: "`30s`", Also: "`CINCH_DRAIN_TIMEOUT`, `--drain-timeout`",
		Meaning: "grace period after the first signal: commands in flight may finish, then connections are cut. `drain_delay` comes before it",
	},
	{
		Keys: "`drain_grace`", Default: "`2s`", Also: "`CINCH_DRAIN_GRACE`, `--drain-grace`",
		Meaning: "how long a drain waits for clients that only wait themselves (`BLPOP`, `XREAD BLOCK`, a quiet stream); then they are ended as a server that shuts down would end them, [by protocol](UPGRADE.md#what-a-drain-does)",
	},
	{
		Keys: "", Default: "", Also: "`CINCH_CONFIG`, `--config`",
		Meaning: "the configuration file",
	},
	{
		Keys: "", Default: "", Also: "`CINCH_REDIS`, `--redis`",
		Meaning: "`LISTEN=URL`: more Redis gateways (a URL of a cluster takes the ports behind LISTEN too), with the defaults " +
			"below; the variable takes several with spaces between them, the flag may be repeated",
	},
	{
		Keys: "", Default: "", Also: "`CINCH_GRPC`, `--grpc`",
		Meaning: "`LISTEN=URL`: more gRPC gateways, likewise; `?peers=true` behind the URL stands for `peers: true`, as " +
			"the one near the servers of a pair needs it. Their rule is all messages from 64 bytes on, `zstd`, `dictionary: auto`",
	},
	{
		Keys: "", Default: "", Also: "`CINCH_MONGO`, `--mongo`",
		Meaning: "`LISTEN=URI`: more MongoDB gateways, likewise; a URI with several hosts makes a gateway for each, on ports " +
			"that follow each other. `peers=true` among the options of the URI stands for `peers: true`, and " +
			"`standby=HOST:PORT,…` adds a gateway with `standby` on the port behind the last. Their rule is all messages, " +
			"`zstd-3`, `min_gain` 5%, `dictionary: auto`",
	},
	{
		Keys: "", Default: "", Also: "`CINCH_TARANTOOL`, `--tarantool`",
		Meaning: "`LISTEN=URL`: more Tarantool gateways, likewise; their rule is all fields of all spaces that nothing in the " +
			"server computes on, from 64 bytes on, `zstd-3`, `dictionary: auto`",
	},
	{
		Keys: "", Default: "", Also: "`CINCH_POSTGRES`, `--postgres`",
		Meaning: "`LISTEN=URL`: more PostgreSQL gateways, likewise; they have no rules. `state_file`, `users_file` and " +
			"`auth_query` may stand among the options of the URL. See [POSTGRES.md](POSTGRES.md)",
	},
	{
		Keys: "", Default: "", Also: "`CINCH_TUNNEL`, `--tunnel`",
		Meaning: "`LISTEN=PEER`: more near ends of tunnels, likewise; see [TUNNEL.md](TUNNEL.md)",
	},
	{
		Keys: "", Default: "", Also: "`CINCH_TUNNEL_EXIT`, `--tunnel-exit`",
		Meaning: "`LISTEN=UPSTREAM`: more far ends, likewise",
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
		Meaning: "how rules call it; `auto` is reserved",
	},
	{
		Keys: "`file`", Default: "needed",
		Meaning: "what `cinch dict train` wrote. It holds pieces of your data: keep it private, and keep it as long as any " +
			"value was sealed with it",
	},
}

// training has the keys of "dictionary: auto".
var training = []Row{
	{
		Keys: "`sample_memory`", Default: "`64MiB`",
		Meaning: "memory for sampled values, in the whole process; divided among the rules. A training holds what it works on " +
			"once more",
	},
	{
		Keys: "`rule_memory`", Default: "`8MiB`",
		Meaning: "most of that for one rule",
	},
	{
		Keys: "`max_sample`", Default: "`128KiB`",
		Meaning: "longer values are not sampled; nor are those above a 64th of the rule's memory",
	},
	{
		Keys: "`min_samples`", Default: "`1000`",
		Meaning: "values that a training wants, at least 64. Where fewer fill the memory they are enough",
	},
	{
		Keys: "`min_saving`", Default: "`10%`",
		Meaning: "share of what is stored now that a new dictionary has to save, its own cost included",
	},
	{
		Keys: "`drift`", Default: "`15%`",
		Meaning: "training begins again when values are stored in so much more than was promised",
	},
	{
		Keys: "`interval`", Default: "`10m`",
		Meaning: "time between two trainings for a rule, in all gateways of a store. A dictionary that values have drifted " +
			"away from is replaced after a tenth of it already, once in four intervals. After a training that did not pay " +
			"it doubles, up to 64 times",
	},
	{
		Keys: "`poll`", Default: "`15s`",
		Meaning: "time between looks at what other gateways have announced",
	},
	{
		Keys: "`cpu`", Default: "`50%`",
		Meaning: "share of one core that training takes while it lasts",
	},
}
