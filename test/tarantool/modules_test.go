package tarantool

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	tnt "github.com/tarantool/go-tarantool/v2"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

var (
	crudPath  = flag.String("crud", os.Getenv("CINCH_CRUD"), "`DIRECTORIES` of the sources of crud, checks and errors, separated by colons; with -vshard, or its test is skipped")
	queuePath = flag.String("queue", os.Getenv("CINCH_QUEUE"), "`DIRECTORY` of the sources of queue, without which its test is skipped")
)

// modules returns Lua code that adds directories to the search path of modules.
func modules(directories ...string) string {
	return fmt.Sprintf("for d in (%q):gmatch('[^:]+') do package.path = d .. '/?.lua;' .. d .. '/?/init.lua;' .. package.path end\n", strings.Join(directories, ":"))
}

// crudScript makes one instance both storage and router. route makes the router use another address for its
// storage.
const crudScript = `
set, me = 'cbf06940-0790-498b-948d-000000000001', '8a274925-a26d-47fc-9e1b-000000000001'
box.cfg{listen = '127.0.0.1:' .. arg[1], instance_uuid = me, replicaset_uuid = set}
box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})
box.schema.user.create('storage', {password = 'storage', if_not_exists = true})
box.schema.user.grant('storage', 'super', nil, nil, {if_not_exists = true})
box.schema.user.create('cinch', {password = 'secret', if_not_exists = true})
vshard = require('vshard')
function topology(addr)
    return {bucket_count = 10, sharding = {[set] = {replicas = {[me] = {uri = 'storage:storage@' .. addr, name = 's', master = true}}}}}
end
vshard.storage.cfg(topology('127.0.0.1:' .. arg[1]), me)
crud = require('crud')
crud.init_storage()
function route(addr)
    vshard.router.cfg(topology(addr))
    vshard.router.bootstrap({if_not_bootstrapped = true, timeout = 10})
    crud.init_router()
end
local s = box.schema.space.create('docs', {format = {{'id', 'unsigned'}, {'bucket_id', 'unsigned'}, {'doc', 'string'}, {'title', 'string'}}})
s:create_index('pk')
s:create_index('bucket_id', {parts = {2}, unique = false})
box.schema.user.grant('cinch', 'read', 'space', 'docs')
route('127.0.0.1:' .. arg[1])
require('fiber').create(function() while true do require('fiber').sleep(3600) end end)
`

// crudServer is a Tarantool that runs crud, and its gateway.
type crudServer struct {
	t       *testing.T
	direct  *tnt.Connection
	addr    string
	gateway *tnt.Connection
	client  *tnt.Connection // the application's connection to the router
}

// startCrud puts a gateway with these rules in front of crud's router, or between the router and the
// storage.
func startCrud(t *testing.T, before, rules string) *crudServer {
	t.Helper()
	script := filepath.Join(t.TempDir(), "crud.lua")
	if err := os.WriteFile(script, []byte(modules(*vshardPath, *crudPath)+crudScript), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := testenv.Server(t, testenv.Program(t, "tarantool"), script, "PORT")
	s := &crudServer{t: t, addr: addr, direct: tntConnect(t, addr)}
	testenv.Eventually(t, "crud is configured", func() bool {
		_, err := s.direct.Do(tnt.NewEvalRequest("return crud.len('docs') or error('not yet')").Args([]any{})).Get()
		return err == nil
	})
	cinchCommand(t, 0, "tarantool", "init", "tarantool://"+addr, "--user", "cinch")
	g := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "tarantool", Upstream: "tarantool://cinch:secret@" + addr, Rules: rules})
	s.gateway = tntConnect(t, g.Addr)
	if s.client = s.gateway; before == "storage" {
		s.client = s.direct
		eval(t, s.direct, "route(...)", g.Addr)
	}
	return s
}

// call calls a function of crud, whose second result is its error.
func (s *crudServer) call(function string, args ...any) (any, error) {
	got, err := s.client.Do(tnt.NewCall17Request(function).Args(args)).Get()
	if err == nil && len(got) > 1 && got[1] != nil {
		err = fmt.Errorf("%v", got[1])
	}
	if err != nil || len(got) == 0 {
		return nil, err
	}
	return got[0], nil
}

func (s *crudServer) must(function string, args ...any) any {
	s.t.Helper()
	got, err := s.call(function, args...)
	if err != nil {
		s.t.Fatalf("%s%.200v: %v", function, args, err)
	}
	return got
}

// check compares tuple 1 as the application sees it, and checks that its document is stored compressed.
func (s *crudServer) check(doc, title string) {
	s.t.Helper()
	rows := s.must("crud.get", "docs", 1).(map[any]any)["rows"].([]any)
	if got := rows[0].([]any); got[2] != doc || got[3] != title {
		s.t.Errorf("crud.get gives %.100q, %.100q; want %.100q, %q", got[2], got[3], doc, title)
	}
	if got := eval(s.t, s.direct, "return box.space.docs:get(1).doc")[0]; !envelope.IsSealed([]byte(got.(string))) {
		s.t.Errorf("stored is %.60q", got)
	}
}

// TestCrudOperations calls the real module crud through a gateway in front of its router, and through one
// between router and storage. No splice may cut an envelope: one that could is refused, others are
// executed.
func TestCrudOperations(t *testing.T) {
	if *crudPath == "" || *vshardPath == "" {
		t.Skip("no -crud and -vshard")
	}
	type list = []any
	type object = map[string]any
	doc := strings.Repeat(document(rand.New(rand.NewPCG(1, 2))), 2)
	for before, rules := range map[string]string{
		"router":  "- {function: crud.replace, argument: 2.3, setting: zstd-3}",
		"storage": "- {space: docs, field: doc, setting: zstd-3}",
	} {
		t.Run(before, func(t *testing.T) {
			s := startCrud(t, before, rules)
			s.must("crud.replace", "docs", list{1, nil, doc, "a title"})
			// The rule is for tuples, not for the arguments of the functions that crud calls there.
			if before == "storage" {
				bucket := eval(t, s.direct, "return box.space.docs:get(1).bucket_id")[0]
				// The driver would send it as a signed integer.
				number, err := strconv.ParseUint(fmt.Sprint(bucket), 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.gateway.Do(tnt.NewReplaceRequest("docs").Tuple(list{1, number, doc, "a title"})).Get(); err != nil {
					t.Fatal(err)
				}
			}
			s.check(doc, "a title")
			for _, field := range []any{3, "doc", -2} {
				cut := list{list{":", field, 1, 3, "XXX"}}
				for function, args := range map[string]list{
					"crud.update":             {"docs", 1, cut},
					"crud.upsert":             {"docs", list{1, nil, doc, "never"}, cut},
					"crud.upsert_object":      {"docs", object{"id": 1, "doc": doc, "title": "never"}, cut},
					"crud.upsert_many":        {"docs", list{list{list{1, nil, doc, "never"}, cut}}},
					"crud.upsert_object_many": {"docs", list{list{object{"id": 1, "doc": doc, "title": "never"}, cut}}},
				} {
					if _, err := s.call(function, args...); err == nil || !strings.Contains(err.Error(), "splice") {
						t.Errorf("%s of field %v: %v, want a refusal", function, field, err)
					}
					s.check(doc, "a title")
				}
			}
			s.must("crud.update", "docs", 1, list{list{":", 4, 1, 1, "The"}})
			s.check(doc, "The title")
			s.must("crud.upsert", "docs", list{1, nil, doc, "never"}, list{list{":", 4, 1, 3, "One"}})
			s.check(doc, "One title")
			s.must("crud.update", "docs", 1, list{list{"=", "title", "set"}})
			s.check(doc, "set")
			cinchCommand(t, 0, "verify", "tarantool://"+s.addr)
		})
	}
}

// queueScript creates a tube of each kind.
const queueScript = `
box.cfg{listen = '127.0.0.1:' .. arg[1]}
box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})
queue = require('queue')
for _, kind in ipairs{'fifo', 'fifottl', 'utube', 'utubettl', 'limfifottl'} do queue.create_tube(kind, kind, {if_not_exists = true, capacity = 100}) end
require('fiber').create(function() while true do require('fiber').sleep(3600) end end)
`

// TestQueueOperations takes tasks through all their states with the real module queue. Their data is
// compressed before the module gets it, and the module does not read it.
func TestQueueOperations(t *testing.T) {
	if *queuePath == "" {
		t.Skip("no -queue")
	}
	script := filepath.Join(t.TempDir(), "queue.lua")
	if err := os.WriteFile(script, []byte(modules(*queuePath)+queueScript), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := testenv.Server(t, testenv.Program(t, "tarantool"), script, "PORT")
	direct := tntConnect(t, addr)
	testenv.Eventually(t, "the tubes are there", func() bool {
		_, err := direct.Do(tnt.NewEvalRequest("return queue.tube.limfifottl.name or error('not yet')").Args([]any{})).Get()
		return err == nil
	})
	g := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "tarantool", Upstream: "tarantool://" + addr, Rules: `- {function: "queue.tube.*:put", argument: 1, setting: zstd-3}`})
	client := tntConnect(t, g.Addr)
	doc := strings.Repeat(document(rand.New(rand.NewPCG(3, 4))), 2)
	for _, kind := range []string{"fifo", "fifottl", "utube", "utubettl", "limfifottl"} {
		t.Run(kind, func(t *testing.T) {
			// do calls a method of the tube and returns the task, which is [number, state, data].
			do := func(method string, args ...any) []any {
				t.Helper()
				got, err := client.Do(tnt.NewCall17Request("queue.tube." + kind + ":" + method).Args(args)).Get()
				if err != nil || len(got) == 0 {
					t.Fatalf("%s: %v, %v", method, got, err)
				}
				task := got[0].([]any)
				if task[2] != doc {
					t.Errorf("%s gives %.60q", method, task[2])
				}
				return task
			}
			id := do("put", doc, map[string]any{"utube": "one", "ttl": 1000})[0]
			if got := eval(t, direct, "return queue.tube[...]:peek(0)[3]", kind)[0]; !envelope.IsSealed([]byte(got.(string))) {
				t.Errorf("stored is %.60q", got)
			}
			do("peek", id)
			do("take", 1)
			do("release", id)
			do("take", 1)
			do("bury", id)
			if n, err := client.Do(tnt.NewCall17Request("queue.tube." + kind + ":kick").Args([]any{1})).Get(); err != nil || fmt.Sprint(n) != "[1]" {
				t.Errorf("kick: %v, %v", n, err)
			}
			do("take", 1)
			do("ack", id)
			do("delete", do("put", doc)[0])
		})
	}
}
