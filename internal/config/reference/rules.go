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
		Meaning: "pattern as in Redis: `*` any bytes, `?` one byte, `[a-c]`, `[^a]`, `\\` before a " +
			"literal character. Write it in quotes, as YAML gives `*` and `[` another meaning",
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
		Meaning: "one of `string`, `hash`, `stream`, or a list of them. Streams are opt-in; lists, sets and sorted sets are " +
			"never compressed",
	},
	{
		Keys: "`min_size`", Default: "`64`; `0` for `raw`",
		Meaning: "size in bytes of the value as the application sent it",
	},
	{
		Keys: "`max_size`", Default: "none",
		Meaning: "the same; the next rules apply to longer values",
	},
	{
		Keys: "`min_gain`", Default: "`10%`",
		Meaning: "share of the server's memory for the value that compression must free, `0%` for any gain. " +
			"Computed as for Redis 7 with jemalloc: strings of 109 and of 124 bytes both take 128, so compressing from one " +
			"to the other saves nothing",
	},
	{
		Keys: "`setting`", Default: "needed",
		Meaning: "codec and level: `zstd-3`, `lz4`, `snappy`, `s2`, `minlz`, `zlib-6`, `gzip-6`; `raw` leaves values uncompressed and " +
			"ends the search. `zstd-3@0a1b2c3d` uses the dictionary with that number, which must be in the upstream " +
			"(`cinch dict ls URL`)",
	},
	{
		Keys: "`dictionary`", Default: "none",
		Meaning: "name of a dictionary, for `zstd` only; or `auto`: the gateway trains dictionaries on the values that pass " +
			"and rolls out the useful ones, with the level of `setting` or a lower one that saves as much; see " +
			"[DICTIONARIES.md](DICTIONARIES.md)",
	},
	{
		Keys: "`no_sample`", Default: "none",
		Meaning: "patterns of keys whose values are not used for training, for `dictionary: auto`",
	},
	{
		Keys: "`mode`", Default: "`seal`",
		Meaning: "`observe` compresses each value, decompresses it, compares and counts the result, and stores the value unchanged: so a " +
			"rule's saving and cost are measured on live traffic before a byte is changed. Not with `dictionary: auto`, " +
			"which stores dictionaries. A reload to `seal` turns it on. Redis only",
	},
	{
		Keys: "`share_samples`", Default: "`false`",
		Meaning: "`true`: one dictionary trained on the values of all users that write under the rule, for `dictionary: auto`. " +
			"Otherwise each of the first eight users has [its own](DICTIONARIES.md#several-logins)",
	},
	{
		Keys: "`format`", Default: "none",
		Meaning: "values that the clients' library has compressed in this format (`glide`, `django`, `phpredis`, `zlib`, …) are " +
			"decompressed, and their content is compressed. Clients get it in the library's format again, from Cinch's encoder and not " +
			"always in the same bytes; see [LIBRARIES.md](LIBRARIES.md#values-that-other-libraries-compressed)",
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
		Meaning: "share of a message's bytes that compression must save; otherwise the message is sent plain",
	},
	{
		Keys: "`setting`", Default: "needed",
		Meaning: "`zstd` (with a level that suits messages: see [GRPC.md](GRPC.md)) or `zstd-1`, `minlz`, `s2`, " +
			"`lz4`, `snappy`, `gzip-6`; `raw` sends messages plain",
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
		Meaning: "pattern or list of patterns for the content type of the body, without parameters: `application/json`, `text/*`",
	},
	{
		Keys: "`direction`", Default: "`request`",
		Meaning: "`request`, `reply` or a list. Replies are compressed only if a rule says so, see [HTTP.md](HTTP.md#replies)",
	},
	{
		Keys: "`min_size`, `max_size`", Default: "as above",
		Meaning: "size in bytes of the body as received; a rule covers bodies of unknown length whatever their size",
	},
	{
		Keys: "`min_gain`", Default: "`10%`",
		Meaning: "share of a body's bytes that another coding must save; otherwise the body is sent unchanged",
	},
	{
		Keys: "`setting`", Default: "needed",
		Meaning: "`zstd-3`, `gzip-6`, `snappy`, or `auto`: the best that the receiver is known to support; `cinch-proto` as in " +
			"[gRPC](GRPC.md#messages-of-protocol-buffers), only between gateways, where `auto` chooses it for content types with " +
			"`protobuf` in them; `raw` leaves bodies unchanged",
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
		Meaning: "size in bytes of the message before compression; for replies, the recent size of replies to such requests, " +
			"at the far end of a link their own",
	},
	{
		Keys: "`min_gain`", Default: "`5%`",
		Meaning: "share of a message's bytes that compression must save, including the reply that it causes; not over a link",
	},
	{
		Keys: "`setting`", Default: "needed",
		Meaning: "`zstd-3`, `snappy`, `zlib-6`; `raw` sends messages plain; `auto` measures the connection to the server and chooses, see " +
			"[MONGODB.md](MONGODB.md). The level is for requests: the server has its own for replies. Over a link only `raw` or not matters",
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
		Meaning: "pattern for a field's name in the space's format, or its number as Lua counts, from 1. Fields that an index " +
			"or a constraint touches are never compressed; the log says why",
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
		Meaning: "Tarantool: declares that nothing hidden from the gateway's user reads the field, no check constraint and no foreign " +
			"key; see [TARANTOOL.md](TARANTOOL.md#rights-to-ones-own-spaces-only)",
	},
	{
		Keys: "`min_gain`", Default: "`10%`",
		Meaning: "share of a field's bytes that compression must save",
	},
}
