package mongotest

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cinch-layer/cinch/test/testenv"
)

// Config configures a mongod. The zero value is a standalone server.
type Config struct {
	ReplicaSet string   // its name; "": standalone
	Args       []string // further mongod arguments
	Dir        string   // its working directory; "": a new temporary one

	// Uninitiated leaves the replica set without a configuration. Otherwise the set is initiated with this
	// member alone, and the server is primary when Start returns.
	Uninitiated bool
	Host        string // the member's host:port in that configuration; the server's own address if empty
}

// Server is a real mongod. It belongs to one test.
type Server struct {
	Addr string // 127.0.0.1:port
	Dir  string // its working directory, removed after the test

	cfg  Config
	port int
	proc *testenv.Process
}

// Start starts mongod on a free port in a temporary directory and waits until it accepts connections. It is
// killed when the test ends. Without mongod the test is skipped, or fails when CI=true.
func Start(t testing.TB, cfg Config) *Server {
	t.Helper()
	program := mongodProgram(t)
	s := &Server{Dir: cmp.Or(cfg.Dir, t.TempDir()), cfg: cfg}
	var err error
	for range testenv.StartTries {
		s.port = testenv.FreePort(t)
		s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
		if err = s.start(program); err == nil {
			t.Cleanup(func() { s.finish(t) })
			if cfg.ReplicaSet != "" && !cfg.Uninitiated {
				s.initiate(t)
			}
			return s
		}
	}
	t.Fatalf("mongod %v: %v", cfg.Args, err)
	return nil
}

// mongodProgram returns the mongod that scripts/servers installed, or else the one in the search path.
func mongodProgram(t testing.TB) string {
	t.Helper()
	testenv.NeedsPrograms(t)
	path := filepath.Join(testenv.CacheDir(), "mongod-6.0.5", "mongod")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	path, err := exec.LookPath("mongod")
	if err != nil {
		testenv.Missing(t, "mongod", "run: scripts/servers install mongo")
	}
	return path
}

func (s *Server) start(program string) error {
	args := []string{
		"--port", strconv.Itoa(s.port), "--bind_ip", "127.0.0.1", "--dbpath", s.Dir,
		"--wiredTigerCacheSizeGB", "0.25", "--setParameter", "enableTestCommands=1",
		"--setParameter", "diagnosticDataCollectionEnabled=false",
		// Preallocation would take another 200 MB of disk.
		"--wiredTigerEngineConfigString", "log=(prealloc=false)",
	}
	if s.cfg.ReplicaSet != "" {
		args = append(args, "--replSet", s.cfg.ReplicaSet)
	}
	p, err := testenv.StartProcess(s.Dir, nil, program, append(args, s.cfg.Args...)...)
	if err != nil {
		return err
	}
	if err := p.WaitReady(func() bool { return testenv.Accepts(s.Addr) }); err != nil {
		p.Kill()
		return err
	}
	s.proc = p
	return nil
}

func (s *Server) finish(t testing.TB) {
	s.proc.Kill()
	if t.Failed() {
		t.Logf("end of mongod's log:\n%s", s.proc.Tail(3))
	}
}

// URI returns the connection string for a driver that must connect to this server only.
func (s *Server) URI() string { return "mongodb://" + s.Addr + "/?directConnection=true" }

// Client connects to the server directly, without a gateway.
func (s *Server) Client(t testing.TB) *mongo.Client {
	t.Helper()
	c, err := mongo.Connect(options.Client().ApplyURI(s.URI()).SetServerSelectionTimeout(testenv.StartTimeout))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Disconnect(context.Background()) })
	return c
}

func (s *Server) initiate(t testing.TB) {
	t.Helper()
	host := s.cfg.Host
	if host == "" {
		host = s.Addr
	}
	s.Initiate(t, host)
}

// Initiate initiates the replica set with these members and waits for a primary.
func (s *Server) Initiate(t testing.TB, hosts ...string) {
	t.Helper()
	members := bson.A{}
	for i, host := range hosts {
		members = append(members, bson.D{{Key: "_id", Value: i}, {Key: "host", Value: host}})
	}
	admin := s.Client(t).Database("admin")
	// Elections start after 3 s instead of 10; a busy machine may need more than one.
	settings := bson.D{{Key: "electionTimeoutMillis", Value: 3000}, {Key: "heartbeatIntervalMillis", Value: 500}}
	set := bson.D{{Key: "_id", Value: s.cfg.ReplicaSet}, {Key: "members", Value: members}, {Key: "settings", Value: settings}}
	if err := admin.RunCommand(t.Context(), bson.D{{Key: "replSetInitiate", Value: set}}).Err(); err != nil {
		t.Fatal(err)
	}
	if err := waitForPrimary(t.Context(), admin); err != nil {
		t.Fatal(err)
	}
}

func waitForPrimary(ctx context.Context, admin *mongo.Database) error {
	for deadline := time.Now().Add(2 * testenv.StartTimeout); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var hello struct {
			Primary string `bson:"primary"`
			Ready   bool   `bson:"isWritablePrimary"`
		}
		err := admin.RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello)
		if err == nil && (hello.Ready || hello.Primary != "") {
			return nil
		}
	}
	return fmt.Errorf("the replica set has no primary after %v", 2*testenv.StartTimeout)
}

// Compression holds the byte counts of a compressor before (In) and after (Out) it ran.
type Compression struct{ In, Out int64 }

// Since returns the difference to an earlier reading.
func (c Compression) Since(before Compression) Compression {
	return Compression{c.In - before.In, c.Out - before.Out}
}

// Compressed reads mongod's counters for a compressor: the messages that it compressed to send, and those
// that it decompressed after receiving.
func (s *Server) Compressed(t testing.TB, name string) (sent, received Compression) {
	t.Helper()
	var status struct {
		Network struct {
			Compression map[string]struct {
				Compressor   struct{ BytesIn, BytesOut int64 } `bson:"compressor"`
				Decompressor struct{ BytesIn, BytesOut int64 } `bson:"decompressor"`
			} `bson:"compression"`
		} `bson:"network"`
	}
	err := s.Client(t).Database("admin").RunCommand(t.Context(), bson.D{{Key: "serverStatus", Value: 1}}).Decode(&status)
	if err != nil {
		t.Fatal(err)
	}
	c := status.Network.Compression[name]
	return Compression{c.Compressor.BytesIn, c.Compressor.BytesOut}, Compression{c.Decompressor.BytesIn, c.Decompressor.BytesOut}
}

// Pid returns the process ID of the running server.
func (s *Server) Pid() int { return s.proc.Pid() }

// Kill ends the server with SIGKILL and returns when it has ended.
func (s *Server) Kill() { s.proc.Kill() }

// Restart starts the server again after Kill, with the same port and directory.
func (s *Server) Restart(t testing.TB) error {
	t.Helper()
	if !s.proc.Ended() {
		return fmt.Errorf("mongod %s still runs", s.Addr)
	}
	return s.start(mongodProgram(t))
}
