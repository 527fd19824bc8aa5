package cluster

import (
	"bytes"
	"slices"
	"testing"

	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// toGateway maps every node to host gw and port 7…, except nodes on port 1.
func toGateway(host, port string) (string, string, bool) {
	return "gw", "7" + port, port != "1"
}

func TestRedirections(t *testing.T) {
	for line, want := range map[string]string{
		"-MOVED 3999 127.0.0.1:6381\r\n":   "-MOVED 3999 gw:76381\r\n",
		"-ASK 3999 node.example.com:6\r\n": "-ASK 3999 gw:76\r\n",
		"-MOVED 1 ::1:6379\r\n":            "-MOVED 1 gw:76379\r\n",
		"-MOVED 1 :6379\r\n":               "-MOVED 1 gw:76379\r\n",
		"-ASK 3999 127.0.0.1:1\r\n":        "-ASK 3999 127.0.0.1:1\r\n",
		"-MOVED house\r\n":                 "-MOVED house\r\n",
		"-MOVED a:1\r\n":                   "-MOVED a:1\r\n",
		"-MOVED \r\n":                      "-MOVED \r\n",
		"-ASKING 1 a:2\r\n":                "-ASKING 1 a:2\r\n",
		"-ERR MOVED 1 a:2\r\n":             "-ERR MOVED 1 a:2\r\n",
		"-REDIRECT 127.0.0.1:6381\r\n":     "-REDIRECT gw:76381\r\n",
		"-REDIRECT ::1:6381\r\n":           "-REDIRECT gw:76381\r\n",
		"-REDIRECT house\r\n":              "-REDIRECT house\r\n",
	} {
		if got := string(AppendRedirection(nil, []byte(line), toGateway)); got != want {
			t.Errorf("%q: %q", line, got)
		}
	}
}

func TestNodesText(t *testing.T) {
	const text = "aa 10.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-5460 [7->-bb]\n" +
		"bb 10.0.0.2:6380@16380,host-2 slave aa 0 0 1 connected\n" +
		"cc 10.0.0.3:6379@16379,,shard-id=9 master - 0 0 2 connected 5461\n" +
		"dd ::1:6379@1 master - 0 0 2 connected\n" +
		"ee 10.0.0.5:1@2 master - 0 0 2 connected\n" +
		"strange\n"
	const want = "aa gw:76379@16379 myself,master - 0 0 1 connected 0-5460 [7->-bb]\n" +
		"bb gw:76380@16380,gw slave aa 0 0 1 connected\n" +
		"cc gw:76379@16379,,shard-id=9 master - 0 0 2 connected 5461\n" +
		"dd gw:76379@1 master - 0 0 2 connected\n" +
		"ee 10.0.0.5:1@2 master - 0 0 2 connected\n" +
		"strange\n"
	if got := string(appendNodes(nil, text, toGateway)); got != want {
		t.Errorf("%s", got)
	}
	nodes, err := parseNodes(text[:len(text)-len("strange\n")])
	if err != nil || len(nodes) != 5 {
		t.Fatalf("%v %+v", err, nodes)
	}
	if n := nodes[0]; !n.myself || !n.primary || !n.hasSlotZero() || !slices.Equal(n.slots, []slotRange{{0, 5460}}) || n.ip != "10.0.0.1" || n.port != "6379" {
		t.Errorf("%+v", n)
	}
	if n := nodes[1]; n.primary || n.hostname != "host-2" || n.certName() != "host-2" || n.dialHost() != "10.0.0.2" {
		t.Errorf("%+v", n)
	}
	if _, err := parseNodes("x y\n"); err == nil {
		t.Error("no error")
	}
}

func TestRenamedReplies(t *testing.T) {
	for _, c := range []struct {
		name, in, want string
	}{
		{
			"slots", "*4\r\n:0\r\n:5\r\n*4\r\n$3\r\nabc\r\n:6379\r\n$2\r\naa\r\n*2\r\n$8\r\nhostname\r\n$1\r\nx\r\n*4\r\n$-1\r\n:6380\r\n$2\r\nbb\r\n%1\r\n$2\r\nip\r\n$1\r\ny\r\n",
			"*4\r\n:0\r\n:5\r\n*4\r\n$2\r\ngw\r\n:76379\r\n$2\r\naa\r\n*2\r\n$8\r\nhostname\r\n$2\r\ngw\r\n*4\r\n$-1\r\n:76380\r\n$2\r\nbb\r\n%1\r\n$2\r\nip\r\n$2\r\ngw\r\n",
		},
		{
			"shards", "%2\r\n$5\r\nslots\r\n*2\r\n:0\r\n:5\r\n$5\r\nnodes\r\n*1\r\n%5\r\n$2\r\nid\r\n$2\r\naa\r\n$8\r\ntls-port\r\n:9\r\n$2\r\nip\r\n$1\r\nx\r\n$8\r\nendpoint\r\n_\r\n$4\r\nrole\r\n$6\r\nmaster\r\n",
			"%2\r\n$5\r\nslots\r\n*2\r\n:0\r\n:5\r\n$5\r\nnodes\r\n*1\r\n%5\r\n$2\r\nid\r\n$2\r\naa\r\n$8\r\ntls-port\r\n:79\r\n$2\r\nip\r\n$2\r\ngw\r\n$8\r\nendpoint\r\n_\r\n$4\r\nrole\r\n$6\r\nmaster\r\n",
		},
		{
			"nodes", "=20\r\ntxt:aa x:9@1 a b c\r\n\r\n", "=22\r\ntxt:aa gw:79@1 a b c\r\n\r\n",
		},
	} {
		got, err := RewritingOf(c.name).Append(nil, []byte(c.in), toGateway)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v %q", c.name, err, got)
		}
	}
}

// Bytes in replies about a cluster that are not renamed stay unchanged.
func FuzzClusterReplies(f *testing.F) {
	f.Add([]byte("*3\r\n:0\r\n:5\r\n*3\r\n$3\r\nabc\r\n:6379\r\n$2\r\naa\r\n"))
	f.Add([]byte("%1\r\n$5\r\nnodes\r\n*1\r\n%1\r\n$4\r\nport\r\n:9\r\n"))
	f.Add([]byte("$12\r\naa x:9@1 a\r\n\r\n"))
	f.Add([]byte("-MOVED 1 a:2\r\n"))
	stay := func(string, string) (string, string, bool) { return "", "", false }
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, to := range []Renamer{stay, toGateway} {
			for _, sub := range []string{"slots", "shards", "nodes", "get-master-addr-by-name", "master"} {
				out, err := RewritingOf(sub).Append(nil, b, to)
				if err != nil {
					continue
				}
				if _, err := (Rewriting{}).Append(nil, out, to); err != nil {
					t.Errorf("%q became %q: %v", b, out, err)
				}
			}
		}
		if got := AppendRedirection(nil, b, stay); !bytes.Equal(got, b) {
			t.Errorf("%q became %q", b, got)
		}
		if got := appendNodes(nil, string(b), stay); !bytes.Equal(got, b) {
			t.Errorf("%q became %q", b, got)
		}
		_, _ = parseNodes(string(b))
		_, _ = resp.ParseHead(b)
	})
}
