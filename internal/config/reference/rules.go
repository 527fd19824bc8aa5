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
		Meaning: "pattern with Redis's own meaning: `*` any bytes, `?` one byte, `[a-c]`, `[^a]`, `\\` before a character that " +
			"stands for itself. In quotes, as YAML has its own use for `*` and `[`",
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
			"never sealed",
	},
	{
		Keys: "`min_size`", Default: "`64`; `0` for `raw`",
		Meaning: "bytes of the value as the application sent it",
	},
	{
		Keys: "`max_size`", Default: "none",
		Meaning: "the same: longer values go on to the next rule",
	},
	{
		Keys: "`min_gain`", Default: "`10%`",
		Meaning: "share of the memory that the server allocates for the value that sealing must free, `0%` for any gain. " +
			"Computed as Redis 7 does with jemalloc: strings of 109 and of 124 bytes both take 128, so nothing is gained " +
			"between them",
	},
	{
		Keys: "`setting`", Default: "needed",
		Meaning: "codec and level: `zstd-3`, `lz4`, `snappy`, `s2`, `minlz`, `zlib-6`, `gzip-6`; `raw` leaves values alone and " +
			"ends the search. `zstd-3@0a1b2c3d` uses the dictionary of that number, which the upstream holds already " +
			"(`cinch dict ls URL`)",
	},
	{
		Keys: "`dictionary`", Default: "none",
		Meaning: "name of a dictionary, for `zstd` only; or `auto`: the gateway trains dictionaries from the values that pass " +
			"and rolls out what pays, with the level of `setting` or a lower one that does as well; see " +
			"[DICTIONARIES.md](DICTIONARIES.md)",
	},
	{
		Keys: "`no_sample`", Default: "none",
		Meaning: "patterns of keys whose values no dictionary is made of, for `dictionary: auto`",
	},
	{
		Keys: "`mode`", Default: "`seal`",
		Meaning: "`observe` seals each value, opens and compares it, counts and forgets it, and stores it as it came: so a " +
			"rule's saving and cost are known on live traffic before a byte is changed. Not with `dictionary: auto`, " +
			"which stores dictionaries. A reload to `seal` turns it on. Redis only",
	},
	{
		Keys: "`share_samples`", Default: "`false`",
		Meaning: "`true`: one dictionary of the values of all logins that write under the rule, for `dictionary: auto`. " +
			"Otherwise each of the first eight has [its own](DICTIONARIES.md#several-logins)",
	},
	{
		Keys: "`format`", Default: "none",
		Meaning: "values that the clients' own library has compressed in this format (`glide`, `django`, `phpredis`, `zlib`, …) are " +
			"opened, and their content is sealed. Clients get it in the library's format again, by our encoder and not " +
			"always in the same bytes; see [LIBRARIES.md](LIBRARIES.md#values-that-other-libraries-compressed)",
	},
	{
		Keys: "`to`", Default: "the format",
		Meaning: "`plain`: clients get the content of such values, sealed or not, without the format",
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
		Meaning: "bytes of the message before compression",
	},
	{
		Keys: "`min_gain`", Default: "`10%`",
		Meaning: "share of its bytes that compression must save, else a message goes plain",
	},
	{
		Keys: "`setting`", Default: "needed",
		Meaning: "`zstd` (its level is chosen by what suits messages: see [GRPC.md](GRPC.md)) or `zstd-1`, `minlz`, `s2`, " +
			"`lz4`, `snappy`, `gzip-6`; `raw` sends messages plain",
	},
	{
		Keys: "`dictionary`", Default: "none",
		Meaning: "for `zstd`, towards another gateway with `peers`: the name of a dictionary of at most 128 KiB, or `auto`; " +
			"see [GRPC.md](GRPC.md#dictionaries-between-two-gateways)",
	},
}

// httpRules has the keys of HTTP rules.
var httpRules = []Row{
	{
		Keys: "`host`", Default: "any",
		Meaning: "pattern for the `Host` that the client asks for, without a port: `mimir.*`",
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
		Meaning: "`request`, `reply` or a list. Replies are compressed only where a rule says so, see [HTTP.md](HTTP.md#replies)",
	},
	{
		Keys: "`min_size`, `max_size`", Default: "as above",
		Meaning: "bytes of the body as it comes; bodies of unknown length are covered whatever their size",
	},
	{
		Keys: "`min_gain`", Default: "`10%`",
		Meaning: "share of its bytes that another coding must save, else a body goes as it came",
	},
	{
		Keys: "`setting`", Default: "needed",
		Meaning: "`zstd-3`, `gzip-6`, `snappy`, or `auto`: the best that the receiver is known to read; `cinch-proto` as in " +
			"[gRPC](GRPC.md#messages-of-protocol-buffers), between gateways only, where `auto` takes it for content types with " +
			"`protobuf` in them; `raw` leaves bodies alone",
	},
}

// mongoRules has the keys of MongoDB rules.
var mongoRules = []Row{
	{
		Keys: "`namespace`", Default: "any",
		Meaning: "pattern for `database.collection`: `shop.*`; commands about no collection have `database.$cmd`",
	},
	{
		Keys: "`command`", Default: "any",
		Meaning: "pattern or list of patterns, as they are spelled on the wire: `find`, `[find, getMore, aggregate]`",
	},
	{
		Keys: "`direction`", Default: "both",
		Meaning: "`request`, `reply` or a list",
	},
	{
		Keys: "`min_size`, `max_size`", Default: "`0`, none",
		Meaning: "bytes of the message before compression; of replies, those that such requests have had recently",
	},
	{
		Keys: "`min_gain`", Default: "`5%`",
		Meaning: "share of its bytes that compression must save, those of the reply included that it entails",
	},
	{
		Keys: "`setting`", Default: "needed",
		Meaning: "`zstd-3`, `snappy`, `zlib-6`; `raw` sends messages plain; `auto` measures the link and chooses, see " +
			"[MONGODB.md](MONGODB.md). The level is for requests: the server has its own for replies",
	},
	{
		Keys: "`dictionary`", Default: "none",
		Meaning: "for `zstd` and `auto`, towards another gateway: the name of a dictionary of at most 128 KiB, or `auto`; see " +
			"[MONGODB.md](MONGODB.md#a-gateway-at-each-end)",
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
			"or a constraint touches are never sealed; the log says why",
	},
	{
		Keys: "`function`", Default: "",
		Meaning: "in place of `space` and `field`: pattern for the name of a stored function that writes what it is given",
	},
	{
		Keys: "`argument`", Default: "",
		Meaning: "with `function`: which argument, from 1: `2`; or a field of an argument that is an array or a map: `2.3`, " +
			"`1.body`",
	},
	{
		Keys: "`unconstrained`", Default: "`false`",
		Meaning: "Tarantool: nothing that the gateway's user may not see reads the field, no check constraint and no foreign " +
			"key; see [TARANTOOL.md](TARANTOOL.md#rights-to-ones-own-spaces-only)",
	},
	{
		Keys: "`min_gain`", Default: "`10%`",
		Meaning: "share of its bytes that sealing must save",
	},
}
