package mongo

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
	"github.com/cinch-layer/cinch/test/mongotest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// cluster is a server whose cluster authenticates members by certificates, with a certificate that it accepts
// as a member's.
type cluster struct {
	server *mongotest.Server
	ca     *testenv.Authority
	member testenv.Issued
}

// startCluster returns a cluster that tests share.
func startCluster(t *testing.T) cluster {
	t.Helper()
	return testenv.Shared(t, "cluster", func(t testing.TB) cluster {
		c := cluster{ca: testenv.NewAuthority(t)}
		c.ca.Organization = "Example"
		own := c.ca.Bundle(t, c.ca.Issue(t, "server"))
		c.member = c.ca.Issue(t, "gateway")
		c.server = mongotest.Start(t, mongotest.Config{Args: []string{
			"--tlsMode", "requireTLS", "--tlsCertificateKeyFile", own, "--tlsCAFile", c.ca.File,
			"--auth", "--clusterAuthMode", "x509", "--setParameter", "authenticationMechanisms=MONGODB-X509,SCRAM-SHA-256,SCRAM-SHA-1,PLAIN",
		}})
		return c
	})
}

// asMember returns an upstream with the member's certificate.
func (c cluster) asMember(t *testing.T) endpoint.Upstream {
	t.Helper()
	cfg := c.member.TLS(t)
	cfg.RootCAs = c.ca.Pool
	return endpoint.Upstream{Network: "tcp", Address: c.server.Addr, Host: "127.0.0.1", TLS: cfg}
}

// byCertificate returns the login of a cluster member by its certificate, with the given command.
func byCertificate(command string) bson.D {
	d := bson.D{{Key: command, Value: 1}, {Key: "mechanism", Value: "MONGODB-X509"}, {Key: "$db", Value: "$external"}}
	if command == "saslStart" {
		d = append(d, bson.E{Key: "payload", Value: []byte{0}})
	}
	return d
}

// asFirst returns the login of byCertificate as a first step in a hello, which has the database in another field.
func asFirst(command string) bson.D {
	d := byCertificate(command)
	d[2].Key = "db"
	return d
}

func helloWith(first any) bson.D {
	return append(hello(), bson.E{Key: "speculativeAuthenticate", Value: first})
}

// behindSection returns a message with a document sequence before its body.
func behindSection(id int32, section string, doc bson.D, documents ...bson.D) []byte {
	b := wire.AppendHeader(nil, wire.Header{RequestID: id, OpCode: wire.OpMsg})
	b = append(b, 0, 0, 0, 0, 1)
	at := len(b)
	b = append(append(b, 0, 0, 0, 0), section...)
	b = append(b, 0)
	for _, d := range documents {
		one, _ := bson.Marshal(d)
		b = append(b, one...)
	}
	binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at))
	body, _ := bson.Marshal(doc)
	b = append(append(b, 0), body...)
	wire.PutLength(b)
	return b
}

// x509Logins lists all forms of a login by the connection's certificate. sends returns the client's messages.
var x509Logins = []struct {
	name  string
	sends func(c *rawClient) [][]byte
}{
	{"authenticate", func(*rawClient) [][]byte { return [][]byte{opMsg(1, 0, byCertificate("authenticate"))} }},
	{"saslStart", func(*rawClient) [][]byte { return [][]byte{opMsg(1, 0, byCertificate("saslStart"))} }},
	{"in hello", func(*rawClient) [][]byte { return [][]byte{opMsg(1, 0, helloWith(asFirst("authenticate")))} }},
	{"in hello by saslStart", func(*rawClient) [][]byte { return [][]byte{opMsg(1, 0, helloWith(asFirst("saslStart")))} }},
	{"in a second hello", func(*rawClient) [][]byte {
		return [][]byte{opMsg(1, 0, hello()), opMsg(2, 0, helloWith(asFirst("authenticate")))}
	}},
	{"in isMaster in the old form", func(*rawClient) [][]byte {
		return [][]byte{opQuery(1, bson.D{{Key: "isMaster", Value: 1}, {Key: "speculativeAuthenticate", Value: asFirst("authenticate")}})}
	}},
	{"in isMaster within $query", func(*rawClient) [][]byte {
		return [][]byte{opQuery(1, bson.D{{Key: "$query", Value: bson.D{{Key: "ismaster", Value: 1}, {Key: "speculativeAuthenticate", Value: asFirst("authenticate")}}}})}
	}},
	{"in the old form", func(*rawClient) [][]byte { return [][]byte{opQuery(1, byCertificate("authenticate")[:2])} }},
	{"saslStart in the old form", func(*rawClient) [][]byte {
		return [][]byte{opQuery(1, append(byCertificate("saslStart")[:2], bson.E{Key: "payload", Value: []byte{0}}))}
	}},
	{"with a checksum", func(*rawClient) [][]byte {
		return [][]byte{opMsg(1, uint32(wire.ChecksumPresent), byCertificate("authenticate"))}
	}},
	{"compressed", func(c *rawClient) [][]byte {
		return [][]byte{opMsg(1, 0, hello("zstd")), c.compress(wire.Zstd, opMsg(2, 0, byCertificate("authenticate")))}
	}},
	{"in a compressed hello", func(c *rawClient) [][]byte {
		return [][]byte{opMsg(1, 0, hello("snappy")), c.compress(wire.Snappy, opMsg(2, 0, helloWith(asFirst("authenticate"))))}
	}},
	{"behind a section", func(*rawClient) [][]byte { return [][]byte{behindSection(1, "ab", byCertificate("authenticate"))} }},
	{"in a section", func(*rawClient) [][]byte {
		return [][]byte{behindSection(1, "speculativeAuthenticate", hello(), byCertificate("authenticate"))}
	}},
	{"mechanism last", func(*rawClient) [][]byte {
		return [][]byte{opMsg(1, 0, bson.D{{Key: "authenticate", Value: 1}, {Key: "$db", Value: "$external"}, {Key: "mechanism", Value: "MONGODB-X509"}})}
	}},
	{"two mechanisms", func(*rawClient) [][]byte {
		return [][]byte{
			opMsg(1, 0, append(bson.D{{Key: "authenticate", Value: 1}, {Key: "mechanism", Value: "SCRAM-SHA-256"}}, byCertificate("authenticate")[1:]...)),
			opMsg(2, 0, append(byCertificate("authenticate"), bson.E{Key: "mechanism", Value: "SCRAM-SHA-256"})),
		}
	}},
	{"two first steps", func(*rawClient) [][]byte {
		scram := bson.D{{Key: "saslStart", Value: 1}, {Key: "mechanism", Value: "SCRAM-SHA-256"}, {Key: "payload", Value: []byte("n,,n=u,r=x")}, {Key: "db", Value: "admin"}}
		return [][]byte{opMsg(1, 0, append(helloWith(scram), bson.E{Key: speculativeKey, Value: asFirst("authenticate")}))}
	}},
	{"another case", func(*rawClient) [][]byte {
		return [][]byte{opMsg(1, 0, bson.D{{Key: "Authenticate", Value: 1}, {Key: "mechanism", Value: "mongodb-x509"}, {Key: "$db", Value: "$external"}})}
	}},
	{"no text", func(*rawClient) [][]byte {
		return [][]byte{opMsg(1, 0, bson.D{{Key: "authenticate", Value: 1}, {Key: "mechanism", Value: bson.Symbol("MONGODB-X509")}, {Key: "$db", Value: "$external"}})}
	}},
	{"no mechanism", func(*rawClient) [][]byte {
		return [][]byte{opMsg(1, 0, bson.D{{Key: "authenticate", Value: 1}, {Key: "$db", Value: "$external"}})}
	}},
	{"no answer wanted", func(*rawClient) [][]byte {
		return [][]byte{opMsg(1, uint32(wire.MoreToCome), byCertificate("authenticate")), opMsg(2, 0, command("ping", 1))}
	}},
	{"as a user", func(*rawClient) [][]byte {
		return [][]byte{opMsg(1, 0, append(byCertificate("authenticate"), bson.E{Key: "user", Value: "O=Example,CN=gateway"}))}
	}},
}

// whoAmI returns the users that the server takes the client for, and whether the client may read the secrets
// of all users.
func (c *rawClient) whoAmI() (users []string, secrets bool) {
	c.t.Helper()
	var status struct {
		AuthInfo struct {
			AuthenticatedUsers []struct{ User string }
		}
	}
	a := c.run(plain, bson.D{{Key: "connectionStatus", Value: 1}, {Key: "$db", Value: "admin"}})
	if err := bson.Unmarshal(a.doc, &status); err != nil {
		c.t.Fatal(err)
	}
	for _, u := range status.AuthInfo.AuthenticatedUsers {
		users = append(users, u.User)
	}
	return users, c.run(plain, bson.D{{Key: "find", Value: "system.users"}, {Key: "$db", Value: "admin"}}).ok()
}

// try sends a login, waits for the replies and returns the errors in them.
func (c *rawClient) try(messages [][]byte) (failures []mongo.CommandError) {
	c.t.Helper()
	for _, m := range messages {
		c.write(m)
		var msg wire.Msg
		if h, _ := wire.ParseHeader(m); h.OpCode == wire.OpMsg && msg.Parse(m) == nil && msg.Flags&wire.MoreToCome != 0 {
			continue
		}
		a := c.receive()
		if a.came != plain {
			c.t.Error("the reply is compressed")
		}
		if !a.ok() {
			var e struct {
				Code     int32
				CodeName string
				Errmsg   string
			}
			_ = bson.Unmarshal(a.doc, &e)
			failures = append(failures, mongo.CommandError{Code: e.Code, Name: e.CodeName, Message: e.Errmsg})
		}
		if _, err := a.doc.LookupErr("speculativeAuthenticate"); err == nil {
			c.t.Error("a first step was answered")
		}
	}
	c.last = 100
	return failures
}

// TestNobodyLogsInAsTheGateway checks that a client without TLS or password never gets the identity of the
// gateway's certificate, with any form of login and on every topology.
func TestNobodyLogsInAsTheGateway(t *testing.T) {
	c := startCluster(t)
	direct := c.asMember(t)
	conn, err := direct.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	raw := dialRaw(t, c.server.Addr)
	raw.conn, raw.in.Conn = conn, conn
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if failures := raw.try([][]byte{opMsg(1, 0, byCertificate("authenticate"))}); len(failures) > 0 {
		t.Fatal(failures)
	}
	if users, secrets := raw.whoAmI(); len(users) != 1 || users[0] != "__system" || !secrets {
		t.Fatalf("the certificate stands for %v: nothing is tested", users)
	}

	single := serve(t, c.server.Addr, withZstd, func(cfg *Config) { cfg.Upstream = c.asMember(t) })
	far := serve(t, c.server.Addr, withZstd, peers, func(cfg *Config) { cfg.Upstream = c.asMember(t) })
	farTLS, err := endpoint.TLSFiles{Cert: c.member.Cert, Key: c.member.Key, ClientCA: c.ca.File}.ServerConfig()
	if err != nil {
		t.Fatal(err)
	}
	closed := serve(t, c.server.Addr, withZstd, peers, func(cfg *Config) { cfg.Upstream, cfg.TLS = c.asMember(t), farTLS })
	for name, addr := range map[string]string{
		"single":        single.addr,
		"load balanced": serve(t, "", withZstd, func(cfg *Config) { cfg.Members = []endpoint.Upstream{c.asMember(t)} }).addr,
		"far":           far.addr,
		"pair":          serve(t, far.addr, withZstd, linking).addr,
		"pair, the near one has the certificate": serve(t, closed.addr, withZstd, linking, func(cfg *Config) {
			cfg.Upstream = c.asMember(t)
			cfg.Upstream.Address = closed.addr
		}).addr,
	} {
		t.Run(name, func(t *testing.T) {
			for _, login := range x509Logins {
				raw := dialRaw(t, addr)
				failures := raw.try(login.sends(raw))
				for _, f := range failures {
					if f.Code != codeAuthenticationFailed && f.Code != 352 && login.name != "no mechanism" { // UnsupportedOpQueryCommand
						t.Errorf("%s: %v", login.name, f)
					}
				}
				if users, secrets := raw.whoAmI(); len(users) > 0 || secrets {
					t.Errorf("%s: the client is %v", login.name, users)
				}
			}
		})
	}
	if single.log.Count("login refused") == 0 || errorCount(single, "login_refused") < 10 {
		t.Error("neither logged nor counted")
	}
}

// mongod's replies to the first step of a login within hello show whether it was the last step.
func TestFirstStepsWithinHello(t *testing.T) {
	member := startCluster(t).asMember(t)
	conn, err := member.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	raw := dialRaw(t, member.Address)
	raw.conn, raw.in.Conn = conn, conn
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	scram := bson.D{
		{Key: "saslStart", Value: 1},
		{Key: "mechanism", Value: "SCRAM-SHA-256"},
		{Key: "payload", Value: []byte("n,,n=SCRAM-SHA-256,r=nonce")},
		{Key: "db", Value: "admin"},
	}
	for want, reply := range map[bool]answer{
		true:  raw.run(plain, helloWith(asFirst("authenticate"))),
		false: dialRaw(t, closed(t).Addr).run(plain, helloWith(scram)),
	} {
		first, err := reply.doc.LookupErr(speculativeKey)
		if d, failed := parseHelloReply(reply.doc); err != nil || failed != nil || !d.ok || d.loggedIn != want {
			t.Errorf("%v, %v: logged in: %v", first, err, d.loggedIn)
		}
	}
}

// A driver configured for X.509 gets an explaining error at once, and SCRAM still works.
func TestDriverHearsWhyX509IsRefused(t *testing.T) {
	c := startCluster(t)
	serverTLS, err := endpoint.TLSFiles{Cert: c.member.Cert, Key: c.member.Key}.ServerConfig()
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, c.server.Addr, withZstd, func(cfg *Config) { cfg.Upstream, cfg.TLS = c.asMember(t), serverTLS })
	mine := c.member.TLS(t)
	mine.RootCAs = c.ca.Pool
	o := options.Client().ApplyURI(s.uri()).SetServerSelectionTimeout(10 * time.Second).SetTLSConfig(mine)
	client, err := mongo.Connect(o.SetAuth(options.Credential{AuthMechanism: "MONGODB-X509"}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Disconnect(t.Context()) }()
	err = client.Database("admin").RunCommand(t.Context(), bson.D{{Key: "find", Value: "system.users"}}).Err()
	if err == nil || !strings.Contains(err.Error(), "log in with SCRAM") {
		t.Errorf("the driver says %v", err)
	}
	if err := connectAs(t, s.uri(), c.ca.Pool, "SCRAM-SHA-256", "nobody").Ping(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "AuthenticationFailed") && !strings.Contains(err.Error(), "Authentication failed") {
		t.Errorf("a password that is wrong: %v", err)
	}
}

// Only some mechanisms pass, and drivers are told no others.
func TestMechanisms(t *testing.T) {
	open, private := &loginFilter{}, &loginFilter{private: true}
	for _, c := range []struct {
		name          string
		open, private bool
	}{
		{"SCRAM-SHA-1", true, true},
		{"SCRAM-SHA-256", true, true},
		{"MONGODB-CR", true, true},
		{"GSSAPI", true, true},
		{"MONGODB-AWS", true, true},
		{"PLAIN", false, true},
		{"MONGODB-OIDC", false, true},
		{"MONGODB-X509", false, false},
		{"EXTERNAL", false, false},
		{"scram-sha-256", false, false},
		{"SCRAM-SHA-256\x00", false, false},
		{"", false, false},
	} {
		doc, _ := bson.Marshal(bson.D{{Key: "saslStart", Value: 1}, {Key: "mechanism", Value: c.name}})
		for l, want := range map[*loginFilter]bool{open: c.open, private: c.private} {
			mechanism, err := l.refusedIn(doc)
			if err != nil || (mechanism == "") != want {
				t.Errorf("%q passes: %v, with %+v", c.name, mechanism == "", l)
			}
			if mechanism != "" && !strings.Contains(l.refusalText(mechanism), "does not work") {
				t.Errorf("%q: %s", c.name, l.refusalText(mechanism))
			}
		}
	}
	if newLoginFilter(endpoint.Upstream{Network: "tcp"}, nil, nil).private || !newLoginFilter(endpoint.Upstream{Network: "tcp", TLS: &tls.Config{}}, nil, nil).private {
		t.Error("TLS makes no difference")
	}
	reply, _ := bson.Marshal(bson.D{{Key: "ok", Value: 1}, {Key: "saslSupportedMechs", Value: bson.A{"MONGODB-X509", "SCRAM-SHA-256", "PLAIN"}}, {Key: "last", Value: 1}})
	want, _ := bson.Marshal(bson.D{{Key: "ok", Value: 1}, {Key: "saslSupportedMechs", Value: bson.A{"SCRAM-SHA-256"}}, {Key: "last", Value: 1}})
	got, err := rewriteHelloReply(nil, reply, helloReply{ok: true}, &handshake{logins: &loginFilter{}}, func([]byte) (string, bool) { return "", false })
	if err != nil || string(got) != string(want) {
		t.Errorf("drivers hear of %v", bson.Raw(got))
	}
}

// A password by PLAIN is not sent over a connection that can be eavesdropped on.
func TestPlainNeedsTLS(t *testing.T) {
	server := withLess(t, "zlib")
	tap := startTap(t, server.Addr)
	s := serve(t, tap.addr, withZstd)
	raw := dialRaw(t, s.addr)
	raw.run(plain, hello())
	tap.take()
	a := raw.run(plain, bson.D{{Key: "saslStart", Value: 1}, {Key: "mechanism", Value: "PLAIN"}, {Key: "payload", Value: []byte("\x00me\x00hunter2")}, {Key: "$db", Value: "$external"}})
	if code, _ := a.doc.Lookup("code").AsInt64OK(); code != codeAuthenticationFailed {
		t.Error(a.doc)
	}
	if requests, _ := tap.take(); len(requests) > 0 {
		t.Error("the server has seen the password")
	}
	if err := connect(t, s.uri()).Ping(t.Context(), nil); err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
		t.Error(err)
	}
}

// A login may end in the reply to the hello that began it: by OIDC with a token that is still valid, and by
// X.509.
func TestLoginsEndWithinHello(t *testing.T) {
	// Reply of mongod 6.0.5 to X.509.
	user := bson.D{{Key: "dbname", Value: "$external"}, {Key: "user", Value: "CN=u"}}
	step := func(done any) bson.D {
		return bson.D{{Key: "conversationId", Value: 1}, {Key: "done", Value: done}, {Key: "payload", Value: []byte("r=1,s=2,i=3")}}
	}
	for _, c := range []struct {
		name     string
		first    any // nil: the server's reply has no such field
		ok       int
		stranger bool
	}{
		{"no answer", nil, 1, true},
		{"a step", step(false), 1, true},
		{"the last step", step(true), 1, false},
		{"a certificate", user, 1, false},
		{"done in another form", step("true"), 1, true},
		{"no document", "done", 1, true},
		{"the hello is refused", step(true), 0, true},
	} {
		p := newParts(t, withZstd)
		p.authGate.Probe = &gateway.AuthProbe{Ask: func(context.Context) (bool, error) { return true, nil }}
		p.pending.push(&exchange{id: 1, replyCompressor: plain, hello: &handshake{logins: p.g.logins}}, nil)
		doc := bson.D{{Key: "me", Value: "db0:1"}, {Key: "ok", Value: c.ok}}
		if c.first != nil {
			doc = append(doc, bson.E{Key: speculativeKey, Value: c.first})
		}
		if err := p.handleReply(answers(doc)); err != nil || p.client.told.Len() == 0 {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := p.authGate.MustAuthenticate(t.Context()); got != c.stranger {
			t.Errorf("%s: a stranger %v", c.name, got)
		}
	}
}

func TestLoginsAreChecked(t *testing.T) {
	p := newParts(t, nil)
	l := p.g.logins
	start := func(mechanism string) []byte {
		return opMsg(1, 0, command("saslStart", 1, bson.E{Key: "mechanism", Value: mechanism}))
	}
	for _, c := range []struct {
		name    string
		message []byte
		want    string
	}{
		{"its own proof", start("SCRAM-SHA-256"), ""},
		{"a certificate", start(mechanismX509), mechanismX509},
		{"in a section", behindSection(1, mechanismKey, command("saslStart", 1)), unknownMechanism},
	} {
		if got, err := l.refusedMechanism(requestOf(t, c.message)); got != c.want || err != nil {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
	if err := p.handleRequest(answers(command("find", "users", bson.E{Key: "mechanism", Value: mechanismX509}))); err != nil || p.client.told.Len() > 0 {
		t.Errorf("another command: %v, %q", err, p.client.told.String())
	}
	b := l.refusalReply(wire.Header{RequestID: 4, OpCode: wire.OpMsg}, mechanismX509)
	if h, _ := wire.ParseHeader(b); h.ResponseTo != 4 || !bytes.Contains(b, []byte("log in with SCRAM")) {
		t.Errorf("%+v: %q", h, b)
	}
	l.recordRefused(p.client, "X")
	if p.log.Count("login refused") != 1 || l.stats.Snapshot().Errors["login_refused"] != 1 {
		t.Error("a refusal is not told")
	}
}
