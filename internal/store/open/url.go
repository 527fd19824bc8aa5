package open

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/store"
)

// A store may be written as several servers, as the upstream of a gateway may:
// redis+cluster://node,node,…, redis+sentinel://sentinel,sentinel,…/name, and
// tarantool://shard,shard,…

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

// Kind is the kind of store that a URL leads to, "" for none.
func Kind(rawURL string) string {
	if isSeveral(rawURL) {
		return Redis
	}
	scheme, _, found := strings.Cut(rawURL, "://")
	if !found {
		return ""
	}
	return schemes[scheme]
}

// Holds reports that Open and Look take the URL. MongoDB's servers keep nothing of ours.
func Holds(rawURL string) bool { return Kind(rawURL) == Redis || Kind(rawURL) == Tarantool }

// NoStore says what the URL of a store looks like.
func NoStore(rawURL string) error {
	return &store.Explained{
		Err: fmt.Errorf("%q is no store", Redact(rawURL)), Class: store.ErrUsage,
		Help: "write redis://host:6379, rediss://…, unix:///path, redis+cluster://host,host,…, redis+sentinel://sentinel,sentinel,…/name or tarantool://host:3301",
	}
}

// isSeveral tells the URL of several Redis servers. Its path is no database.
func isSeveral(rawURL string) bool {
	scheme, _, found := strings.Cut(rawURL, "://")
	base, _, several := strings.Cut(scheme, "+")
	return found && several && (base == "redis" || base == "rediss")
}

// SplitShards takes the URL of several shards apart, tarantool://user:password@one,two,three: the
// first is the server that is meant, all are what tuples move between. Of one server all is nil.
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

// Redact is the URL without credentials.
func Redact(rawURL string) string {
	if _, shards := SplitShards(rawURL); isSeveral(rawURL) || shards != nil {
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

// Behind is the URL of a gateway's upstream as Cinch's commands take it, without credentials.
func Behind(protocol, upstream string) string {
	if !strings.Contains(upstream, "://") {
		upstream = protocol + "://" + upstream
	}
	return withoutUser(upstream)
}

// Location is where a store is, as a command line says.
type Location struct {
	URL       string   // of the server that is meant, without a database
	Shards    []string // that the URL names, see SplitShards
	Databases []int    // of Redis, sorted; nil: all
}

// Locate reads the URL of a store that is to be walked, and the databases that were named beside it. Those
// take the place of the URL's own.
func Locate(rawURL string, databases []int) (l Location, err error) {
	l.URL, l.Shards = SplitShards(rawURL)
	l.Databases = databases
	switch kind := Kind(rawURL); {
	case rawURL == "":
	case !Holds(rawURL):
		return l, NoStore(rawURL)
	case kind == Tarantool && len(databases) > 0:
		return l, &store.Explained{
			Err: errors.New("--db is for Redis"), Class: store.ErrUsage,
			Help: "choose spaces by rules: --rule 'space=docs,field=body,setting=zstd-3'",
		}
	case kind == Redis && !isSeveral(rawURL):
		if err := l.takeDatabase(); err != nil {
			return l, &store.Explained{Err: err, Class: store.ErrUsage}
		}
	}
	return l, l.checkDatabases()
}

// takeDatabase moves a database from the URL, where it is usual.
func (l *Location) takeDatabase() error {
	u, err := url.Parse(l.URL)
	if err != nil {
		return errors.New("the URL can't be read") // not shown: it may hold a password
	}
	path := strings.Trim(u.Path, "/")
	if path == "" || u.Scheme == "unix" {
		return nil
	}
	db, err := strconv.Atoi(path)
	if err != nil || db < 0 {
		return fmt.Errorf("%s: %q is no database's number", Redact(l.URL), path)
	}
	if len(l.Databases) == 0 {
		l.Databases = []int{db}
	}
	u.Path = ""
	l.URL = u.String()
	return nil
}

func (l *Location) checkDatabases() error {
	for _, db := range l.Databases {
		if db < 0 {
			return &store.Explained{Err: fmt.Errorf("--db: %d is no database's number", db), Class: store.ErrUsage}
		}
	}
	slices.Sort(l.Databases)
	l.Databases = slices.Compact(l.Databases)
	return nil
}

// Gateway is a gateway's configuration that stands for the store, for a command without one.
func (l *Location) Gateway(rules []config.Rule) config.Gateway {
	if Kind(l.URL) != Tarantool {
		return config.RedisGateway("store", config.DefaultListen, l.URL, rules)
	}
	g := config.TarantoolGateway("store", config.DefaultListen, l.URL, rules)
	g.Shards = l.Shards
	return g
}

// IsOne tells the URL of one Redis server from that of several.
func IsOne(rawURL string) bool { return Kind(rawURL) == Redis && !isSeveral(rawURL) }

// UpstreamOf is what a gateway for the store has behind it.
func UpstreamOf(rawURL string) (string, error) {
	switch Kind(rawURL) {
	case Redis:
		return withoutDatabase(rawURL), nil
	case Mongo:
		return mongoUpstream(rawURL)
	}
	return rawURL, nil
}

// withoutDatabase takes the database off a URL: clients of a gateway select their own.
func withoutDatabase(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil || u.Scheme == "unix" || isSeveral(rawURL) {
		return rawURL
	}
	u.Path, u.RawQuery = "", ""
	return u.String()
}

// mongoUpstream is a gateway's upstream for what a driver's URL names: without user and
// database, and all members behind one gateway.
func mongoUpstream(uri string) (string, error) {
	rest, ok := strings.CutPrefix(uri, "mongodb://")
	if !ok {
		return "", &store.Explained{
			Err:  errors.New("a gateway can't look up mongodb+srv://"),
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
