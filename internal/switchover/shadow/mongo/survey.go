package mongo

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// greet runs hello on a server.
func greet(ctx context.Context, up endpoint.Upstream) (h hello, err error) {
	client, err := connect(ctx, up)
	if err != nil {
		return h, err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	return h, sayHello(ctx, client, &h)
}

// hello is the answer to hello, which needs no login.
type hello struct {
	Writable bool     `bson:"isWritablePrimary"`
	Set      string   `bson:"setName"`
	Hosts    []string `bson:"hosts"`
	Msg      string   `bson:"msg"` // "isdbgrid" from a mongos
	Topology struct {
		Process bson.ObjectID `bson:"processId"` // of the running server
	} `bson:"topologyVersion"`
}

func (h hello) isMongos() bool { return h.Msg == "isdbgrid" }

// server holds what a server reports about itself.
type server struct {
	hello
	name        string
	known       bool // it answered: production may require a login that the mirror does not have
	version     string
	numbers     []int // of the version
	compatible  string
	engine      string
	user        string // "": no login is required
	rights      []right
	settings    map[string]string
	profiled    []string // databases
	collections map[string]collection
	fullest     float64 // share of its disk that is used; 0: unknown
}

// collection describes a collection of a server.
type collection struct {
	view       bool
	options    string // without those for storage
	indexes    string // without their options for storage
	expires    bool
	documents  int64
	data       int64 // bytes
	files      int64
	compressor string
}

// right is a privilege of a user.
type right struct {
	Resource struct {
		DB         string
		Collection string
		Any        bool `bson:"anyResource"`
	}
	Actions []string
}

func ask(ctx context.Context, t *shadow.Target) (*server, error) {
	s := &server{name: t.Name, collections: map[string]collection{}, settings: map[string]string{}}
	client, err := connect(ctx, t.Upstream)
	if err != nil {
		return nil, err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	if err := sayHello(ctx, client, &s.hello); err != nil {
		return nil, err
	}
	if err := s.read(ctx, client); err != nil {
		if _, refused := err.(mongo.CommandError); refused && t.Name == "production" {
			s.known = false
			return s, nil
		}
		return nil, err
	}
	s.known = true
	return s, nil
}

// read collects the facts for which a server may require a login.
func (s *server) read(ctx context.Context, client *mongo.Client) error {
	admin := client.Database("admin")
	var build struct {
		Version string
		Array   []int `bson:"versionArray"`
	}
	if err := admin.RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Decode(&build); err != nil {
		return err
	}
	s.version, s.numbers = build.Version, build.Array
	s.readSettings(ctx, admin)
	databases, err := client.ListDatabaseNames(ctx, bson.D{})
	if err != nil {
		return err
	}
	for _, name := range databases {
		if name == "admin" || name == "local" || name == "config" || name == scratchDB {
			continue
		}
		if err := s.readDatabase(ctx, client.Database(name)); err != nil {
			return err
		}
	}
	return nil
}

// readSettings collects facts that managed servers may refuse to report. Those stay empty.
func (s *server) readSettings(ctx context.Context, admin *mongo.Database) {
	var status struct {
		Engine struct{ Name string } `bson:"storageEngine"`
	}
	_ = admin.RunCommand(ctx, bson.D{{Key: "serverStatus", Value: 1}}).Decode(&status)
	s.engine = status.Engine.Name
	var parameters bson.M
	_ = admin.RunCommand(ctx, bson.D{{Key: "getParameter", Value: "*"}}).Decode(&parameters)
	for k, v := range parameters {
		s.settings[k] = fmt.Sprint(v)
	}
	var compatible struct {
		Of struct{ Version string } `bson:"featureCompatibilityVersion"`
	}
	_ = admin.RunCommand(ctx, bson.D{{Key: "getParameter", Value: 1}, {Key: "featureCompatibilityVersion", Value: 1}}).Decode(&compatible)
	s.compatible = compatible.Of.Version
	var options struct{ Parsed bson.M }
	_ = admin.RunCommand(ctx, bson.D{{Key: "getCmdLineOpts", Value: 1}}).Decode(&options)
	s.flatten("", options.Parsed)
	var connection struct {
		Auth struct {
			Users      []struct{ User, DB string } `bson:"authenticatedUsers"`
			Privileges []right                     `bson:"authenticatedUserPrivileges"`
		} `bson:"authInfo"`
	}
	_ = admin.RunCommand(ctx, bson.D{{Key: "connectionStatus", Value: 1}, {Key: "showPrivileges", Value: true}}).Decode(&connection)
	if len(connection.Auth.Users) > 0 {
		s.user, s.rights = connection.Auth.Users[0].User, connection.Auth.Privileges
	}
}

// flatten adds the options that a server was started with.
func (s *server) flatten(prefix string, of bson.M) {
	for k, v := range of {
		switch v := v.(type) {
		case bson.M:
			s.flatten(prefix+k+".", v)
		case bson.D:
			inner := bson.M{}
			for _, e := range v {
				inner[e.Key] = e.Value
			}
			s.flatten(prefix+k+".", inner)
		default:
			s.settings[prefix+k] = fmt.Sprint(v)
		}
	}
}

func (s *server) readDatabase(ctx context.Context, db *mongo.Database) error {
	var profile struct{ Was int }
	if db.RunCommand(ctx, bson.D{{Key: "profile", Value: -1}}).Decode(&profile) == nil && profile.Was > 0 {
		s.profiled = append(s.profiled, db.Name())
	}
	var stats struct {
		Used  float64 `bson:"fsUsedSize"`
		Total float64 `bson:"fsTotalSize"`
	}
	if db.RunCommand(ctx, bson.D{{Key: "dbStats", Value: 1}}).Decode(&stats) == nil && stats.Total > 0 {
		s.fullest = max(s.fullest, stats.Used/stats.Total)
	}
	list, err := db.ListCollectionSpecifications(ctx, bson.D{})
	if err != nil {
		return err
	}
	for _, spec := range list {
		if strings.HasPrefix(spec.Name, "system.") {
			continue
		}
		c := collection{view: spec.Type == "view", options: plainText(spec.Options)}
		c.expires = spec.Options != nil && has(spec.Options, "expireAfterSeconds")
		if !c.view {
			if err := c.read(ctx, db.Collection(spec.Name)); err != nil {
				return err
			}
		}
		s.collections[db.Name()+"."+spec.Name] = c
	}
	return nil
}

// plainText returns a description without parts that differ between copies: collection IDs, and options for
// storage.
func plainText(doc []byte) string {
	for _, key := range []string{"uuid", "storageEngine", "v", "ns", "background"} {
		doc = without(doc, key)
	}
	return bson.Raw(doc).String()
}

var blockCompressor = regexp.MustCompile(`block_compressor=(\w*)`)

func (c *collection) read(ctx context.Context, of *mongo.Collection) error {
	indexes, err := indexesOf(ctx, of)
	if err != nil {
		return err
	}
	texts := make([]string, 0, len(indexes))
	for _, index := range indexes {
		c.expires = c.expires || has(index, "expireAfterSeconds")
		texts = append(texts, plainText(index))
	}
	slices.Sort(texts)
	c.indexes = strings.Join(texts, " ")
	if c.documents, err = of.EstimatedDocumentCount(ctx); err != nil {
		return err
	}
	cursor, err := of.Aggregate(ctx, bson.A{bson.D{{Key: "$collStats", Value: bson.D{{Key: "storageStats", Value: bson.D{}}}}}})
	if err != nil {
		return nil // the user may lack this right, which is not needed otherwise
	}
	var stats []struct {
		Of struct {
			Size    int64
			Files   int64 `bson:"storageSize"`
			Created struct {
				Text string `bson:"creationString"`
			} `bson:"wiredTiger"`
		} `bson:"storageStats"`
	}
	if cursor.All(ctx, &stats) == nil && len(stats) == 1 {
		c.data, c.files = stats[0].Of.Size, stats[0].Of.Files
		if m := blockCompressor.FindStringSubmatch(stats[0].Of.Created.Text); m != nil {
			c.compressor = m[1]
		}
	}
	return nil
}

// compressors returns how many collections use each compressor.
func (s *server) compressors() string {
	of := map[string]int{}
	for _, c := range s.collections {
		if !c.view {
			of[c.compressor]++
		}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if name != "" {
			parts = append(parts, fmt.Sprintf("%d with %s", of[name], name))
		}
	}
	return strings.Join(parts, ", ")
}

// totals adds up all collections.
func (s *server) totals() (documents, data, files int64) {
	for _, c := range s.collections {
		documents, data, files = documents+c.documents, data+c.data, files+c.files
	}
	return documents, data, files
}
