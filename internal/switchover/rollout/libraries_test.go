package rollout

import (
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/cinch-layer/cinch/test/testenv"
)

// A library of the cell's functions that the new node can't load closes the gate; so does one that the
// primary preloads and the new node does not. With both libraries the gate opens.
func TestLibraries(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	c := newCell(t)
	a, made := &c.Nodes[0], c.Nodes[0].Replacement
	libraries, err := value[string](t.Context(), a, "SELECT setting FROM pg_config WHERE name = 'PKGLIBDIR'")
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(filepath.Dir(a.Directory), "own")
	if _, err := a.command(t.Context(), "sh", "-c", `mkdir "$1" && cp "$2/amcheck.so" "$1/probe.so"`, "sh", own, libraries); err != nil {
		t.Fatal(err)
	}
	mustExec(t, a, "ALTER SYSTEM SET dynamic_library_path = '"+own+":$libdir'")
	mustExec(t, a, "ALTER SYSTEM SET session_preload_libraries = 'auto_explain'")
	if err := a.stop(t.Context(), c.shutdownTime()); err != nil {
		t.Fatal(err)
	}
	mustStart(t, a)
	mustExec(t, a, "CREATE FUNCTION probe(regclass) RETURNS void AS 'probe', 'bt_index_check' LANGUAGE C; CREATE EXTENSION amcheck")
	made.Options["dynamic_library_path"] = "$libdir"
	made.Options["session_preload_libraries"] = ""
	mustSay(t, (&Rollout{Cell: c}).Run(t.Context()), ErrGate, "a2 can't load probe, which a can")
	made.Options["dynamic_library_path"] = own + ":$libdir"
	if err := made.stop(t.Context(), c.shutdownTime()); err != nil {
		t.Fatal(err)
	}
	delete(made.Options, "session_preload_libraries")
	if _, err := made.command(t.Context(), "sed", "-i", "/session_preload/d", filepath.Join(made.Directory, "postgresql.auto.conf")); err != nil {
		t.Fatal(err)
	}
	mustSay(t, (&Rollout{Cell: c}).Run(t.Context()), ErrGate, "session_preload_libraries of a2 lacks auto_explain")
	if got := onePrimary(t, c); got != "a" {
		t.Errorf("the primary is %s", got)
	}
	made.Options["session_preload_libraries"] = "" // the operator wants it so
	if err := (&Rollout{Cell: c, Yes: true}).Run(t.Context()); err != nil {
		t.Error(err)
	}
}

// A library that ends the session which loads it counts as failed, like a missing one. A server that shuts
// down says nothing about a library.
func TestLoadEndsSession(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go loads(c)
		}
	}()
	n := &Node{Name: "a", URL: "postgres://postgres@" + l.Addr().String() + "/postgres?sslmode=disable"}
	failed, err := load(t.Context(), n, "", []string{"good", "fatal", "also", "lacking", "last"})
	if err != nil || len(failed) != 2 || failed["fatal"] == nil || failed["lacking"] == nil {
		t.Errorf("%v %v", failed, err)
	}
	for _, name := range []string{"shutdown", "silence"} {
		if failed, err := load(t.Context(), n, "", []string{"good", name}); err == nil {
			t.Errorf("%s: %v", name, failed)
		}
	}
}

// loads simulates a server's session.
func loads(c net.Conn) {
	defer c.Close()
	b := pgproto3.NewBackend(c, c)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	for b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'}); b.Flush() == nil; b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'}) {
		m, err := b.Receive()
		if err != nil {
			return
		}
		q, ok := m.(*pgproto3.Query)
		if !ok {
			return
		}
		says := map[string]*pgproto3.ErrorResponse{
			"LOAD 'fatal'": {Severity: "FATAL", Code: "F0000"}, "LOAD 'lacking'": {Severity: "ERROR", Code: "58P01"}, "LOAD 'shutdown'": {Severity: "FATAL", Code: "57P01"},
		}[q.String]
		switch {
		case q.String == "LOAD 'silence'":
			return
		case says == nil:
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("LOAD")})
			continue
		}
		if b.Send(says); says.Severity == "FATAL" {
			_ = b.Flush()
			return
		}
	}
}

// Missing files on the new machine are reported before the copy, if its pg_config shows them.
func TestMissingFiles(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	c := newCell(t)
	a, made := &c.Nodes[0], c.Nodes[0].Replacement
	mustExec(t, a, "CREATE EXTENSION amcheck")
	if problems, err := (&Rollout{Cell: c}).Plan(t.Context(), new(strings.Builder)); err != nil || problems != 0 {
		t.Errorf("%d problems with the same files: %v", problems, err)
	}
	elsewhere := filepath.Join(filepath.Dir(a.Directory), "programs")
	script := `mkdir -p "$1/lib" "$1/share/extension" && ln -s "$2"/* "$1" && rm "$1/pg_config" && touch "$1/share/extension/plpgsql.control" &&
		printf '#!/bin/sh\ncase $1 in --version) exec %s/pg_config $1;; --pkglibdir) echo %s/lib;; *) echo %s/share;; esac\n' "$2" "$1" "$1" > "$1/pg_config" && chmod +x "$1/pg_config"`
	if _, err := a.command(t.Context(), "sh", "-c", script, "sh", elsewhere, a.Bin); err != nil {
		t.Fatal(err)
	}
	made.Bin = elsewhere
	var out strings.Builder
	problems, err := (&Rollout{Cell: c}).Plan(t.Context(), &out)
	if err != nil || problems != 1 || !strings.Contains(out.String(), "the machine of a2 lacks amcheck.control, amcheck.so, which the cell uses") {
		t.Errorf("%d problems, %v:\n%s", problems, err, &out)
	}
	out.Reset()
	problems, err = (&Rollout{Cell: c}).PlanJSON(t.Context(), &out)
	var p CellPlan
	if err == nil {
		err = json.Unmarshal([]byte(out.String()), &p)
	}
	if err != nil || problems != 1 || p.Problems != 1 || len(p.Nodes) != 1 {
		t.Fatalf("for programs: %d problems, %v: %s", problems, err, &out)
	}
	if n := p.Nodes[0]; n.Role != "primary" || n.Steps[0].Step != "provision" || n.Steps[3].Step != "catch up" || len(n.Steps[1].Text) != 2 || !strings.Contains(n.Steps[1].Text[1], " to copy: about") {
		t.Errorf("%+v", n)
	}
}
