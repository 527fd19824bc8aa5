package mongo

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"github.com/cinch-layer/cinch/internal/store"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// Errors for which callers may check.
var (
	// ErrURL reports a URL that is not a connection string.
	ErrURL = errors.New("not a MongoDB connection string")
	// ErrUnreachable reports that no server answers.
	ErrUnreachable = errors.New("MongoDB can't be reached")
	// ErrLogin reports that the server refuses the user or the password.
	ErrLogin = errors.New("the server refuses the user or the password")
	// ErrDenied reports that the user lacks a right.
	ErrDenied = errors.New("the user lacks a right")
)

// Server is a connection to the deployment that a plan examines.
type Server struct {
	client   *mongo.Client
	name     string // without credentials
	database string // named in the URL; "": all
	logical  bool   // its messages contain a cluster time: it is a replica set or mongos
}

// Connect connects and logs in. timeout limits the wait for each reply.
func Connect(ctx context.Context, uri string, timeout time.Duration) (*Server, error) {
	o := options.Client().ApplyURI(uri)
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, withoutURL(err))
	}
	o.SetAppName("cinch plan").SetServerSelectionTimeout(timeout).SetTimeout(timeout).SetCompressors(nil).SetMaxPoolSize(2)
	s := &Server{name: redact(uri)}
	if u, err := url.Parse(uri); err == nil {
		s.database = strings.Trim(u.Path, "/")
	}
	var err error
	if s.client, err = mongo.Connect(o); err != nil {
		return nil, classify(err)
	}
	var hello struct {
		Set string `bson:"setName"`
		Msg string `bson:"msg"`
	}
	if err := s.client.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello); err != nil {
		s.Close()
		return nil, classify(err)
	}
	s.logical = hello.Set != "" || hello.Msg == "isdbgrid"
	if err := s.refuseGateway(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// refuseGateway returns an error if a Cinch gateway answers: the plan would be for a second gateway in front
// of it. Servers don't know the command.
func (s *Server) refuseGateway(ctx context.Context) error {
	var answer bson.Raw
	err := s.client.Database("admin").RunCommand(ctx, bson.D{{Key: wire.GatewayCommand, Value: 1}}).Decode(&answer)
	var refused mongo.CommandError
	if err != nil {
		if errors.As(err, &refused) && !refused.HasErrorLabel("NetworkError") {
			return nil
		}
		return classify(err)
	}
	name, is := answer.Lookup(wire.GatewayCommand).StringValueOK()
	if !is {
		return nil
	}
	upstream, _ := answer.Lookup(wire.GatewayUpstream).StringValueOK()
	return store.Gateway{Name: name, Upstream: upstream}.Refusal(s.name)
}

// withoutURL returns the reason of an error without the URL, which contains the password.
func withoutURL(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// redact removes user, password and options from a URL.
func redact(uri string) string {
	scheme, rest, _ := strings.Cut(uri, "://")
	rest, _, _ = strings.Cut(rest, "?")
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	return scheme + "://" + rest
}

// Close closes the connections.
func (s *Server) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.client.Disconnect(ctx)
}

// Name returns the URL without credentials.
func (s *Server) Name() string { return s.name }

// Clustered reports whether messages contain a cluster time.
func (s *Server) Clustered() bool { return s.logical }

// Error codes of servers.
const (
	codeUnauthorized   = 13
	codeAuthentication = 18
	codeAtlas          = 8000
)

func classify(err error) error {
	var answer mongo.ServerError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return err
	case strings.Contains(err.Error(), "auth error"), errors.As(err, &answer) && answer.HasErrorCode(codeAuthentication):
		return fmt.Errorf("%w: %w", ErrLogin, err)
	case errors.As(err, &answer) && (answer.HasErrorCode(codeUnauthorized) || answer.HasErrorCode(codeAtlas)):
		return fmt.Errorf("%w: %w", ErrDenied, err)
	case errors.As(err, &answer):
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, reason(err))
}

// reason returns the last connection error of each server, without the driver's descriptions of the servers.
func reason(err error) error {
	var selection topology.ServerSelectionError
	if !errors.As(err, &selection) {
		return err
	}
	var all []error
	for _, s := range selection.Desc.Servers {
		if s.LastError != nil {
			all = append(all, fmt.Errorf("%s: %w", s.Addr, s.LastError))
		}
	}
	if len(all) == 0 {
		return err
	}
	return errors.Join(all...)
}

// Collection is a collection that the user may see.
type Collection struct{ Database, Name string }

// Namespace returns "database.collection".
func (c Collection) Namespace() string { return c.Database + "." + c.Name }

// Collections returns the collections with documents of users, sorted by name in each database. It leaves out
// views and the server's own collections.
func (s *Server) Collections(ctx context.Context) ([]Collection, error) {
	databases := []string{s.database}
	if s.database == "" {
		all, err := s.client.ListDatabaseNames(ctx, bson.D{}, options.ListDatabases().SetAuthorizedDatabases(true))
		if err != nil {
			return nil, classify(err)
		}
		databases = slices.DeleteFunc(all, func(d string) bool { return d == "admin" || d == "config" || d == "local" })
	}
	var list []Collection
	for _, d := range databases {
		names, err := s.client.Database(d).ListCollectionNames(ctx, bson.D{{Key: "type", Value: bson.D{{Key: "$in", Value: bson.A{"collection", "timeseries"}}}}},
			options.ListCollections().SetAuthorizedCollections(true))
		if err != nil {
			return nil, classify(err)
		}
		slices.Sort(names)
		for _, n := range names {
			if !strings.HasPrefix(n, "system.") {
				list = append(list, Collection{d, n})
			}
		}
	}
	return list, nil
}

// Documents passes a sample of want documents of a collection, as BSON, to emit until that returns false. It
// returns the number of documents in the collection. The user needs the right to find. In a large collection the
// sample is random, by $sample; otherwise it is the first documents, since the server would sort all of them for
// $sample.
func (s *Server) Documents(ctx context.Context, c Collection, want int, emit func(doc []byte) bool) (total int64, err error) {
	collection := s.client.Database(c.Database).Collection(c.Name)
	if total, err = collection.EstimatedDocumentCount(ctx); err != nil {
		return 0, classify(err)
	}
	var cursor *mongo.Cursor
	if int64(want)*20 <= total { // above 5 % the server would sort all documents
		cursor, err = collection.Aggregate(ctx, bson.A{bson.D{{Key: "$sample", Value: bson.D{{Key: "size", Value: want}}}}}, options.Aggregate().SetBatchSize(int32(want)))
	} else {
		// By aggregate, and mostly in one reply: the server does not count that as find or getMore, so a
		// later plan does not mistake it for the application's.
		cursor, err = collection.Aggregate(ctx, bson.A{bson.D{{Key: "$limit", Value: want}}}, options.Aggregate().SetBatchSize(int32(want)))
	}
	if err != nil {
		return total, classify(err)
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	for cursor.Next(ctx) {
		if !emit(cursor.Current) {
			return total, nil
		}
	}
	return total, classify(cursor.Err())
}
