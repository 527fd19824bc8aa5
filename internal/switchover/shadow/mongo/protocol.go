package mongo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// Protocol implements shadow.Protocol for MongoDB. Make it with New.
type Protocol struct {
	standalone   bool // a target is not a member of a replica set, so it has no transactions
	catalog      catalog
	cursors      cursors
	transactions *transactions
	scratch      string // collection
}

// New asks the targets for their roles, and the control for its collections.
func New(ctx context.Context, control, test endpoint.Upstream) (*Protocol, error) {
	p := &Protocol{
		cursors: cursors{}, transactions: newTransactions(),
		scratch: "scratch_" + strconv.FormatInt(time.Now().UnixNano(), 36),
	}
	for _, t := range []*shadow.Target{{Name: "control", Upstream: control}, {Name: "test", Upstream: test}} {
		if err := p.meet(ctx, t.Upstream, t.Upstream.Address == control.Address); err != nil {
			return nil, terminal.WithHint(fmt.Errorf("%s: %w", t, err), shadow.HintReach)
		}
	}
	return p, nil
}

var errSecondary = errors.New("it is a secondary, which refuses writes: name the primary")

func (p *Protocol) meet(ctx context.Context, up endpoint.Upstream, learn bool) error {
	client, err := connect(ctx, up)
	if err != nil {
		return err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	var hello struct {
		SetName  string `bson:"setName"`
		Writable bool   `bson:"isWritablePrimary"`
	}
	if err := sayHello(ctx, client, &hello); err != nil {
		return err
	}
	if !hello.Writable {
		return errSecondary
	}
	p.standalone = p.standalone || hello.SetName == ""
	if !learn {
		return nil
	}
	return p.catalog.learn(ctx, client)
}

// connect returns a driver's client, for commands outside the mirror. It dials first, since the driver would
// retry an unreachable server until its timeout.
func connect(ctx context.Context, up endpoint.Upstream) (*mongo.Client, error) {
	c, err := up.Dial(ctx)
	if err != nil {
		return nil, err
	}
	_ = c.Close()
	o := options.Client().SetHosts([]string{up.Address}).SetDirect(true).SetTLSConfig(up.TLS).SetServerSelectionTimeout(loginTime)
	if up.User != "" {
		o.SetAuth(options.Credential{AuthSource: up.Database, Username: up.User, Password: up.Password})
	}
	return mongo.Connect(o)
}

// sayHello runs hello. If it fails, it returns the server's last error: the driver's own only tells how long
// it has tried.
func sayHello(ctx context.Context, client *mongo.Client, to any) error {
	err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(to)
	var tried topology.ServerSelectionError
	if !errors.As(err, &tried) {
		return err
	}
	for _, s := range tried.Desc.Servers {
		if s.LastError != nil {
			return s.LastError
		}
	}
	return errMute
}

var errMute = errors.New("it accepts connections, but does not answer as MongoDB does")

// Reader returns the Reader of a new connection.
func (p *Protocol) Reader() shadow.Reader { return &reader{p: p, pending: map[int32]*request{}} }

// Excuse reports whether the answers may differ because documents expire.
func (p *Protocol) Excuse(_ context.Context, op *shadow.Operation, _, _ *shadow.Target) bool {
	return p.catalog.expires(op)
}

// Notes returns the collections whose data differ by nature.
func (p *Protocol) Notes() []string { return p.catalog.notes() }

// scratchDB is the database for the self-test's data.
const scratchDB = "cinch_shadow"

// ScratchWrite stores the i-th content in the scratch collection.
func (p *Protocol) ScratchWrite(i int) *shadow.Operation {
	one := bson.D{
		{Key: "q", Value: bson.D{{Key: "_id", Value: 1}}},
		{Key: "u", Value: bson.D{{Key: "content", Value: "content " + strconv.Itoa(i)}}},
		{Key: "upsert", Value: true},
	}
	return p.own(shadow.Write, counters, bson.D{{Key: "update", Value: p.scratch}, {Key: "updates", Value: bson.A{one}}})
}

// ScratchRead reads that content.
func (p *Protocol) ScratchRead() *shadow.Operation {
	return p.own(shadow.Read, set, bson.D{{Key: "find", Value: p.scratch}, {Key: "filter", Value: bson.D{{Key: "_id", Value: 1}}}})
}

// ScratchClean removes the scratch collection.
func (p *Protocol) ScratchClean() *shadow.Operation {
	return p.own(shadow.Write, many, bson.D{{Key: "drop", Value: p.scratch}})
}

func (p *Protocol) own(kind shadow.Kind, form uint8, command bson.D) *shadow.Operation {
	body, _ := bson.Marshal(append(command, bson.E{Key: "$db", Value: scratchDB})) // never fails here
	return &shadow.Operation{
		Kind: kind, Form: form, Name: command[0].Key + " scratch", Keys: []string{scratchDB + "." + p.scratch},
		Request: body, Private: &work{statements: []*statement{{body: body, form: form}}},
	}
}
