package mongo

import (
	"context"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// The gateway itself replies to cinchGateway, which servers don't know. If the server requires a login, only
// clients that have logged in are told its URL.
func TestGatewaySaysWhatItIs(t *testing.T) {
	const behind = "mongodb://10.0.0.1:27017"
	server := closed(t)
	s := serve(t, server.Addr, withZstd, func(c *Config) { c.UpstreamURL = behind })
	s.authProbe.Ask = func(ctx context.Context) (bool, error) { return RequiresLogin(ctx, s.cfg.upstreams()) } // removed by serve
	says := func(doc bson.Raw, behind string) bool {
		name, _ := doc.Lookup("cinchGateway").StringValueOK()
		upstream, is := doc.Lookup("upstream").StringValueOK()
		ok, _ := doc.Lookup("ok").AsFloat64OK()
		return name == s.cfg.Name && is && upstream == behind && ok == 1
	}
	c := dialRaw(t, s.addr)
	for _, name := range []string{"cinchGateway", "CINCHGATEWAY"} {
		if a := c.run(plain, command(name, 1)); !says(bson.Raw(a.doc), "") {
			t.Errorf("a stranger is told %s", a.doc)
		}
	}
	c.write(opQuery(77, bson.D{{Key: "cinchGateway", Value: 1}}))
	if a := c.receive(); a.header.ResponseTo != 77 || a.header.OpCode != wire.OpReply || !says(bson.Raw(a.doc), "") {
		t.Errorf("the old form of a command: %s", a.doc)
	}
	if a := c.run(plain, hello()); !a.ok() {
		t.Errorf("hello: %s", a.doc)
	}
	var doc bson.Raw
	user := connectAs(t, s.uri(), nil, "SCRAM-SHA-256", "secret").Database("admin")
	if err := user.RunCommand(t.Context(), bson.D{{Key: "cinchGateway", Value: 1}}).Decode(&doc); err != nil || !says(doc, behind) {
		t.Errorf("a user is told %v, %v", doc, err)
	}
	a := dialRaw(t, server.Addr).run(plain, command("cinchGateway", 1))
	if code, _ := a.doc.Lookup("code").AsInt64OK(); a.ok() || code != 59 && code != 13 {
		t.Errorf("the server: %s", a.doc)
	}
}
