package reference

// rules has the keys of a rule for Redis. Rules of other protocols share those that their own tables do not
// list.
var rules = []Row{
	{
		Keys: "`name`", Default: "`rule-N`",
		Meaning: "label in metrics, N counts from 1",
	},
	{
		Keys: "`key`", Default: "`*`",
		Meaning: "pattern as in Redis, in quotes: `*` any bytes, `?` one byte, `[a-c]`, `[^a]`, `\\` before a literal character",
	},
	{
		Keys: "`field`", Default: "any",
		Meaning: "pattern for the fields of hashes and streams; such a rule covers no strings",
	},
	{
		Keys: "`db`", Default: "any",
		Meaning: "number of the database",
	},
	{
		Keys: "`type`", Default: "`[string, hash]`",
		Meaning: "`string`, `hash`, `stream`, or a list of them",
	},
	{
		Keys: "`min_size`", Default: "`64`; `0` for `raw`",
		Meaning: "size in bytes of the value as the application sent it",
	},
	{
		Keys: "`max_size`", Default: "none",
		Meaning: "the same",
	},
	{
		Keys: "`min_gain`", Default: "`10%`",
		Meaning: "share of the server's memory for the value that compression must free, `0%` for any gain; computed as for Redis 7 " +
			"with jemalloc",
	},
	{
		Keys: "`setting`", Default: "needed",
		Meaning: "codec and level: `zstd-3`, `lz4`, `snappy`, `s2`, `minlz`, `zlib-6`, `gzip-6`; `raw` leaves values uncompressed and " +
			"ends the search. `zstd-3@0a1b2c3d` uses the dictionary with that number, which must be in the upstream (`cinch dict " +
			"ls URL`)",
	},
	{
		Keys: "`dictionary`", Default: "none",
		Meaning: "for `zstd`: name of a dictionary; or `auto`: the gateway [trains dictionaries](DICTIONARIES.md) and rolls out the " +
			"useful ones, with the level of `setting` or a lower one that saves as much",
	},
	{
		Keys: "`no_sample`", Default: "none",
		Meaning: "patterns of keys whose values are not used for training",
	},
	{
		Keys: "`mode`", Default: "`seal`",
		Meaning: "Redis: `observe` measures the rule on live traffic, and stores values unchanged, until a reload says `seal`. Not " +
			"with `dictionary: auto`",
	},
	{
		Keys: "`share_samples`", Default: "`false`",
		Meaning: "`true`: one dictionary trained on the values of all users. Otherwise each of the first eight users has [its " +
			"own](DICTIONARIES.md#several-logins)",
	},
	{
		Keys: "`format`", Default: "none",
		Meaning: "the content of values that the clients' library has compressed in [this " +
			"format](LIBRARIES.md#values-that-other-libraries-compressed) (`glide`, `django`, `phpredis`, `zlib`, …) is " +
			"compressed. Clients get it in the format again, not always in the same bytes",
	},
	{
		Keys: "`to`", Default: "the format",
		Meaning: "`plain`: clients get the content of such values without the format",
	},
}

// grpcRules has the keys of gRPC rules.
var grpcRules = []Row{
	{
		Keys: "`service`", Default: "any",
		Meaning: "pattern for the service with its package: `cortex.Ingester`",
	},
	{
		Keys: "`method`", Default: "any",
		Meaning: "pattern or list of patterns: `Push`, `[Push, Query*]`",
	},
	{
		Keys: "`direction`", Default: "both",
		Meaning: "`request`, `reply` or a list",
	},
	{
		Keys: "`min_size`, `max_size`", Default: "as above",
		Meaning: "size in bytes of the message before compression",
	},
	{
		Keys: "`min_gain`", Default: "`10%`",
		Meaning: "share of a message's bytes that compression must save; otherwise it is sent plain",
	},
	{
		Keys: "`setting`", Default: "needed",
		Meaning: "`zstd` (its level [suits messages](GRPC.md)) or `zstd-1`, `minlz`, `s2`, `lz4`, `snappy`, `gzip-6`; `raw` sends " +
			"messages plain",
	},
}

// httpRules has the keys of HTTP rules.
var httpRules = []Row{
	{
		Keys: "`host`", Default: "any",
		Meaning: "pattern for the client's `Host` header, without a port: `mimir.*`",
	},
	{
		Keys: "`path`", Default: "any",
		Meaning: "pattern for the path, without the query: `/api/v1/push`, `/v1/*`",
	},
	{
		Keys: "`method`", Default: "any",
		Meaning: "pattern or list of patterns: `POST`, `[POST, PUT]`",
	},
	{
		Keys: "`content_type`", Default: "any",
		Meaning: "the same for the body's content type, without parameters: `application/json`, `text/*`",
	},
	{
		Keys: "`direction`", Default: "`request`",
		Meaning: "`request`, [`reply`](HTTP.md#replies) or a list",
	},
	{
		Keys: "`min_size`, `max_size`", Default: "as above",
		Meaning: "size in bytes of the body as received; bodies of unknown length are covered in any case",
	},
	{
		Keys: "`min_gain`", Default: "`10%`",
		Meaning: "share of a body's bytes that another coding must save; otherwise it is sent unchanged",
	},
	{
		Keys: "`setting`", Default: "needed",
		Meaning: "`zstd-3`, `gzip-6`, `snappy`, or `auto`: the best that the receiver is known to support; between gateways also " +
			"[`cinch-proto`](GRPC.md#messages-of-protocol-buffers), which `auto` chooses for content types with `protobuf` in " +
			"them; `raw` leaves bodies unchanged",
	},
}

// mongoRules has the keys of MongoDB rules.
var mongoRules = []Row{
	{
		Keys: "`namespace`", Default: "any",
		Meaning: "pattern for `database.collection`: `shop.*`; commands without a collection have `database.$cmd`",
	},
	{
		Keys: "`command`", Default: "any",
		Meaning: "pattern or list of patterns, as spelled on the wire: `find`, `[find, getMore, aggregate]`",
	},
	{
		Keys: "`direction`", Default: "both",
		Meaning: "`request`, `reply` or a list",
	},
	{
		Keys: "`min_size`, `max_size`", Default: "`0`, none",
		Meaning: "size in bytes of the message before compression; for replies, the recent size of replies to such requests, at the " +
			"far end of a link their own",
	},
	{
		Keys: "`min_gain`", Default: "`5%`",
		Meaning: "share of a message's bytes that compression must save, including the reply that it causes; not over a link",
	},
	{
		Keys: "`setting`", Default: "needed",
		Meaning: "`zstd-3`, `snappy`, `zlib-6`; `raw` sends messages plain; `auto` [measures the connection](MONGODB.md) and chooses. " +
			"The server has its own level for replies. Over a link only `raw` or not matters",
	},
}

// tarantoolRules has the keys of Tarantool rules.
var tarantoolRules = []Row{
	{
		Keys: "`space`", Default: "any",
		Meaning: "pattern for a space's name, or its number",
	},
	{
		Keys: "`field`", Default: "any",
		Meaning: "pattern for a field's name in the space's format, or its number as Lua counts, from 1. Fields that an index or a " +
			"constraint touches are never compressed; the log says why",
	},
	{
		Keys: "`function`", Default: "",
		Meaning: "instead of `space` and `field`: pattern for the name of a stored function that writes its arguments",
	},
	{
		Keys: "`argument`", Default: "",
		Meaning: "with `function`: number of the argument, from 1: `2`; or a field of an argument that is an array or a map: `2.3`, " +
			"`1.body`",
	},
	{
		Keys: "`unconstrained`", Default: "`false`",
		Meaning: "Tarantool: declares that no check constraint and no foreign key hidden from the gateway's user reads the field; see " +
			"[TARANTOOL.md](TARANTOOL.md#rights-to-ones-own-spaces-only)",
	},
	{
		Keys: "`min_gain`", Default: "`10%`",
		Meaning: "share of a field's bytes that compression must save",
	},
}
