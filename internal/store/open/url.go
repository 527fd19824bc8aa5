package open

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/store"
)

// A store's URL may name several servers, as a gateway's upstream may: redis+cluster://node,node,…,
// redis+sentinel://sentinel,sentinel,…/name, and tarantool://shard,shard,…

// Kinds of stores, by their URLs.
const (
	Redis     = config.Redis
	Tarantool = config.Tarantool
	Mongo     = config.Mongo
)

var schemes = map[string]string{
	"redis": Redis, "rediss": Redis, "unix": Redis,
	"tarantool": Tarantool, "tarantools": Tarantool,
	"mongodb": Mongo, "mongodb+srv": Mongo,
}

// Kind returns the kind of store that a URL leads to, "" if none.
func Kind(rawURL string) string {
	if isMultiServer(rawURL) {
		return Redis
	}
	scheme, _, found := strings.Cut(rawURL, "://")
	if !found {
		return ""
	}
	return schemes[scheme]
}

// IsStoreURL reports whether Open and OpenAccess accept the URL. They don't accept MongoDB: Cinch stores nothing
// there.
func IsStoreURL(rawURL string) bool { return Kind(rawURL) == Redis || Kind(rawURL) == Tarantool }

// NotStoreURL returns an error with a hint on how store URLs are written.
func NotStoreURL(rawURL string) error {
	return &store.HintedError{
		Err: fmt.Errorf("%q is not the URL of a store", Redact(rawURL)), Class: store.ErrUsage,
		Help: "write redis://host:6379, rediss://…, unix:///path, redis+cluster://host,host,…, redis+sentinel://sentinel,sentinel,…/name or tarantool://host:3301",
	}
}

// isMultiServer reports whether the URL names several Redis servers. The path of such a URL is not a database.
func isMultiServer(rawURL string) bool {
	scheme, _, found := strings.Cut(rawURL, "://")
	base, _, several := strings.Cut(scheme, "+")
	return found && several && (base == "redis" || base == "rediss")
}

// SplitShards splits a URL of several shards, tarantool://user:password@one,two,three, into one URL a shard.
// first is the server to connect to. For a URL of one server all is nil.
func SplitShards(rawURL string) (first string, all []string) {
	scheme, rest, _ := strings.Cut(rawURL, "://")
	if Kind(rawURL) != Tarantool || !strings.Contains(rest, ",") {
		return rawURL, nil
	}
	user := ""
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		user, rest = rest[:i+1], rest[i+1:]
	}
	for host := range strings.SplitSeq(strings.TrimSuffix(rest, "/"), ",") {
		all = append(all, scheme+"://"+user+host)
	}
	return all[0], all
}

// Redact returns the URL without credentials, or "the store" if it can't be said where these end.
func Redact(rawURL string) string {
	if config.SplitsPassword(rawURL) {
		return "the store"
	}
	if _, shards := SplitShards(rawURL); isMultiServer(rawURL) || shards != nil {
		return withoutUser(rawURL)
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return "the store"
	}
	u.User, u.RawQuery = nil, ""
	return u.String()
}

func withoutUser(rawURL string) string {
	scheme, rest, _ := strings.Cut(rawURL, "://")
	rest, _, _ = strings.Cut(rest, "?")
	return scheme + "://" + rest[strings.LastIndexByte(rest, '@')+1:]
}

// UpstreamURL returns the URL of a gateway's upstream in the form that Cinch's commands accept, without
// credentials.
func UpstreamURL(protocol, upstream string) string {
	if !strings.Contains(upstream, "://") {
		upstream = protocol + "://" + upstream
	}
	return withoutUser(upstream)
}

// Location is the place of a store as given on the command line.
type Location struct {
	URL       string   // of the server to connect to, without a database
	Shards    []string // from the URL, see SplitShards
	Databases []int    // of Redis, sorted; nil: all
}

// ParseLocation parses the URL of a store to walk. databases, if given, replace the URL's own database.
func ParseLocation(rawURL string, databases []int) (l Location, err error) {
	l.URL, l.Shards = SplitShards(rawURL)
	l.Databases = databases
	switch kind := Kind(rawURL); {
	case rawURL == "":
	case !IsStoreURL(rawURL):
		return l, NotStoreURL(rawURL)
	case kind == Tarantool && len(databases) > 0:
		return l, &store.HintedError{
			Err: errors.New("--db is for Redis"), Class: store.ErrUsage,
			Help: "choose spaces by rules: --rule 'space=docs,field=body,setting=zstd-3'",
		}
	case kind == Redis && !isMultiServer(rawURL):
		if err := l.takeDatabase(); err != nil {
			return l, &store.HintedError{Err: err, Class: store.ErrUsage}
		}
	}
	return l, l.checkDatabases()
}

// errURL does not wrap the parser's error, which may show a password.
var errURL = errors.New("the URL can't be parsed: check its port, and write /, ? and # in a password as %2F, %3F and %23")

// takeDatabase moves the database from the URL, its path or ?db=, to Databases.
func (l *Location) takeDatabase() error {
	u, err := url.Parse(l.URL)
	if err != nil {
		return errURL
	}
	if u.Scheme != "unix" && config.SplitsPassword(l.URL) {
		return endpoint.ErrUnescaped
	}
	path, query := "", u.Query()
	if u.Scheme != "unix" {
		path = strings.Trim(u.Path, "/")
	}
	given := slices.DeleteFunc(append(query["db"], path), func(db string) bool { return db == "" })
	if len(given) == 0 {
		return nil
	}
	db, err := strconv.Atoi(given[0])
	switch {
	case err != nil || db < 0:
		return fmt.Errorf("%s: %q is not the number of a database", Redact(l.URL), given[0])
	case len(given) > 1:
		return fmt.Errorf("%s: the URL names several databases: write one as /N, or repeat --db", Redact(l.URL))
	}
	if len(l.Databases) == 0 {
		l.Databases = []int{db}
	}
	if path != "" {
		u.Path = ""
	}
	query.Del("db")
	u.RawQuery = query.Encode()
	l.URL = u.String()
	return nil
}

func (l *Location) checkDatabases() error {
	for _, db := range l.Databases {
		if db < 0 {
			return &store.HintedError{Err: fmt.Errorf("--db: %d is not the number of a database", db), Class: store.ErrUsage}
		}
	}
	slices.Sort(l.Databases)
	l.Databases = slices.Compact(l.Databases)
	return nil
}

// Gateway returns a gateway configuration for the store, for a command that has none.
func (l *Location) Gateway(rules []config.Rule) config.Gateway {
	if Kind(l.URL) != Tarantool {
		return config.RedisGateway("store", config.DefaultListen, l.URL, rules)
	}
	g := config.TarantoolGateway("store", config.DefaultListen, l.URL, rules)
	g.Shards = l.Shards
	return g
}

// IsSingleServer reports whether the URL names exactly one Redis server.
func IsSingleServer(rawURL string) bool { return Kind(rawURL) == Redis && !isMultiServer(rawURL) }

// GatewayUpstream returns the upstream for a gateway in front of the store.
func GatewayUpstream(rawURL string) (string, error) {
	switch Kind(rawURL) {
	case Redis:
		return withoutDatabase(rawURL), nil
	case Mongo:
		return mongoUpstream(rawURL)
	}
	return rawURL, nil
}

// withoutDatabase removes the database from a URL: clients of a gateway select their own.
func withoutDatabase(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil || isMultiServer(rawURL) {
		return rawURL
	}
	if u.Scheme != "unix" {
		u.Path = ""
	}
	u.RawQuery = ""
	return u.String()
}

// mongoUpstream returns a gateway's upstream for a driver's URL: without user and database, and with all
// members behind one gateway.
func mongoUpstream(uri string) (string, error) {
	rest, ok := strings.CutPrefix(uri, "mongodb://")
	if !ok {
		return "", &store.HintedError{
			Err:  errors.New("a gateway can't resolve mongodb+srv:// URLs"),
			Help: "name the members with --upstream mongodb://db1,db2,db3/?loadBalanced=true",
		}
	}
	rest, options, _ := strings.Cut(rest, "?")
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	hosts, _, _ := strings.Cut(rest, "/")
	var keep []string
	for option := range strings.SplitSeq(options, "&") {
		switch strings.ToLower(option) {
		case "tls=true", "ssl=true":
			keep = append(keep, "tls=true")
		}
	}
	if strings.Contains(hosts, ",") {
		keep = append(keep, "loadBalanced=true")
	}
	if len(keep) == 0 {
		return "mongodb://" + hosts, nil
	}
	return "mongodb://" + hosts + "/?" + strings.Join(keep, "&"), nil
}
