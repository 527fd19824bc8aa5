package tarantool

import (
	"encoding/base64"
	"io"
	"net"
	"reflect"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// question is the body of a PING that asks whether a gateway answers.
var question = keyed{"cinch.gateway", true}

const behindTest = "tarantool://10.0.0.1:3301"

// A gateway answers the question with its name and its server's URL. A server answers the same PING like any other.
func TestGatewaySaysWhatItIs(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, func(c *Config) { c.UpstreamURL = behindTest })
	for what, a := range map[string]answer{
		"a PING to the server": b.direct().do(wire.Ping), "a question to it": b.direct().do(wire.Ping, question...),
		"a PING": b.client().do(wire.Ping), "another body": b.client().do(wire.Ping, "cinch.gateway", false),
	} {
		if a.code != wire.OK || a.data != nil {
			t.Errorf("%s is answered with %+v", what, a)
		}
	}
	c := b.client()
	if got, want := c.must(wire.Ping, question...), []any{"cinch.gateway", "t", behindTest}; !reflect.DeepEqual(got, want) {
		t.Errorf("the gateway answers %v", got)
	}
	b.put(c, 1, document(1))
	b.check(c, 1, document(1), true)
}

// If guest has no rights, only clients that have logged in get the URL of the server behind the gateway.
func TestGatewayTellsStrangersNoAddress(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, func(c *Config) { c.UpstreamURL = behindTest })
	b.direct().must(wire.Eval, 0x27, `box.session.su('admin', function()
		box.schema.user.create('app', {password = 'secret'})
		box.schema.user.revoke('guest', 'super')
	end)`, 0x21, []any{})
	conn, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	greeting := make([]byte, wire.GreetingLen)
	if _, err := io.ReadFull(conn, greeting); err != nil {
		t.Fatal(err)
	}
	salt, err := base64.StdEncoding.DecodeString(string(greeting[64:108]))
	if err != nil {
		t.Fatal(err)
	}
	c := &raw{t: t, c: conn}
	if got, want := c.must(wire.Ping, question...), []any{"cinch.gateway", "t", ""}; !reflect.DeepEqual(got, want) {
		t.Errorf("a client without a login is told %v", got)
	}
	c.must(wire.Auth, authBody(salt[:20], "app", "secret")...)
	if got, want := c.must(wire.Ping, question...), []any{"cinch.gateway", "t", behindTest}; !reflect.DeepEqual(got, want) {
		t.Errorf("a user is told %v", got)
	}
}
