package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// Renamer returns the address that clients must see for a node; ok is false if the address stays. In these
// replies, in which a node names others, the addresses are replaced by those of the gateways; all other bytes
// stay unchanged:
//
//	MOVED, ASK, REDIRECT    error lines, anywhere; the last from Valkey's replicas
//	CLUSTER SLOTS           [first last [host port id [more]] …] …
//	CLUSTER SHARDS          [slots … nodes [{id … port … ip … endpoint … hostname …} …]] …
//	CLUSTER NODES           lines in a string (see nodes.go)
//	CLUSTER REPLICAS        the same lines, a string each
type Renamer func(host, port string) (newHost, newPort string, ok bool)

// AppendRedirection appends an error line, with or without line break, its address replaced if it is a
// redirection.
func AppendRedirection(dst, line []byte, to Renamer) []byte {
	head, host, port, end, ok := SplitRedirection(line)
	if !ok {
		return append(dst, line...)
	}
	newHost, newPort, ok := to(string(host), string(port))
	if !ok {
		return append(dst, line...)
	}
	dst = append(append(dst, head...), newHost...)
	dst = append(append(dst, ':'), newPort...)
	return append(dst, end...)
}

// SplitRedirection splits "-MOVED 3999 127.0.0.1:6381\r\n" at the last space and the last colon: IPv6
// addresses have no brackets there.
func SplitRedirection(line []byte) (head, host, port, end []byte, ok bool) {
	if !IsRedirection(line) {
		return nil, nil, nil, nil, false
	}
	text := bytes.TrimSuffix(line, []byte("\r\n"))
	end = line[len(text):]
	at, colon := bytes.LastIndexByte(text, ' ')+1, bytes.LastIndexByte(text, ':')
	if colon < at || bytes.IndexByte(text, ' ')+1 == at && !bytes.HasPrefix(line, replicaHead) {
		return nil, nil, nil, nil, false
	}
	return text[:at], text[at:colon], text[colon+1:], end, true
}

// IsRedirection reports whether an error line redirects the client to another node.
func IsRedirection(line []byte) bool {
	return bytes.HasPrefix(line, []byte("-MOVED ")) || bytes.HasPrefix(line, []byte("-ASK ")) || bytes.HasPrefix(line, replicaHead)
}

var replicaHead = []byte("-REDIRECT ")

// appendNodes appends the lines of CLUSTER NODES with other addresses.
func appendNodes(dst []byte, text string, to Renamer) []byte {
	for line := range strings.Lines(text) {
		id, rest, ok := strings.Cut(line, " ")
		field, tail, ok2 := strings.Cut(rest, " ")
		a := splitNodeAddress(field)
		newHost, newPort, known := "", "", false
		flags, _, _ := strings.Cut(tail, " ")
		if ok && ok2 && !(&node{}).setFlags(flags) {
			newHost, newPort, known = to(a.ip, a.port)
		}
		if !known {
			dst = append(dst, line...)
			continue
		}
		hostname := ""
		if strings.Contains(field, ",") {
			hostname = ","
			if a.hostname != "" {
				hostname += newHost
			}
		}
		dst = fmt.Appendf(dst, "%s %s:%s%s%s%s %s", id, newHost, newPort, a.bus, hostname, a.more, tail)
	}
	return dst
}

// tree is one element of a reply with its children.
type tree struct {
	head     resp.Head
	line     []byte // the first line, with its line break
	body     []byte // of a string, with its line break
	children []tree
}

// maxTree limits the nesting of replies that are rewritten.
const maxTree = 8

var errTree = errors.New("redis: unexpected form of a reply")

// parseTree parses the element at the beginning of b.
func parseTree(b []byte, depth int) (t tree, rest []byte, err error) {
	i := bytes.Index(b, []byte("\r\n"))
	if i < 0 || depth > maxTree {
		return t, nil, errTree
	}
	t.line, rest = b[:i+2], b[i+2:]
	if t.head, err = resp.ParseHead(t.line); err != nil {
		return t, nil, err
	}
	switch {
	case t.head.IsString() && t.head.N >= 0:
		n := t.head.N + 2
		if n > int64(len(rest)) {
			return t, nil, errTree
		}
		t.body, rest = rest[:n], rest[n:]
	case t.head.IsAggregate():
		for range max(t.head.N, 0) {
			var child tree
			if child, rest, err = parseTree(rest, depth+1); err != nil {
				return t, nil, err
			}
			t.children = append(t.children, child)
		}
	}
	return t, rest, nil
}

func (t *tree) append(dst []byte) []byte {
	dst = append(append(dst, t.line...), t.body...)
	for i := range t.children {
		dst = t.children[i].append(dst)
	}
	return dst
}

// text returns the text of a string or a number, "" for others.
func (t *tree) text() string {
	switch {
	case t.body != nil:
		return string(t.body[:len(t.body)-2])
	case t.head.Kind == resp.Integer:
		return string(t.line[1 : len(t.line)-2])
	}
	return ""
}

// set replaces the text of a string or a number. Nulls and empty strings stay: they mean the host that the
// client has dialled.
func (t *tree) set(text string) {
	switch {
	case t.head.Kind == resp.Integer:
		t.line = append(append([]byte{resp.Integer}, text...), "\r\n"...)
	case t.head.Kind == resp.Bulk && t.text() != "":
		t.line = resp.AppendBulkHeader(nil, len(text))
		t.body = append([]byte(text), "\r\n"...)
	}
}

// field returns the value of a key in a map, or in RESP2's list of pairs; nil if there is none.
func (t *tree) field(key string) *tree {
	for i := 0; i+1 < len(t.children); i += 2 {
		if t.children[i].text() == key {
			return &t.children[i+1]
		}
	}
	return nil
}

func (t *tree) setField(key, text string) {
	if f := t.field(key); f != nil {
		f.set(text)
	}
}

func (t *tree) fieldText(key string) string {
	if f := t.field(key); f != nil {
		return f.text()
	}
	return ""
}

// renameSlots rewrites one range of CLUSTER SLOTS.
func (t *tree) renameSlots(to Renamer) {
	for i := 2; i < len(t.children); i++ {
		node := t.children[i].children
		if len(node) < 3 {
			continue
		}
		host, port, ok := to(node[0].text(), node[1].text())
		if !ok {
			continue
		}
		node[0].set(host)
		node[1].set(port)
		if len(node) > 3 {
			node[3].setField("ip", host)
			node[3].setField("hostname", host)
		}
	}
}

// renameShards rewrites one shard of CLUSTER SHARDS.
func (t *tree) renameShards(to Renamer) {
	nodes := t.field("nodes")
	if nodes == nil {
		return
	}
	for i := range nodes.children {
		node := &nodes.children[i]
		host, port, ok := "", "", false
		for _, key := range [...]string{"port", "tls-port"} {
			if text := node.fieldText(key); text != "" && !ok {
				host, port, ok = to(node.fieldText("ip"), text)
			}
		}
		if !ok {
			continue
		}
		for _, key := range [...]string{"port", "tls-port"} {
			node.setField(key, port)
		}
		for _, key := range [...]string{"ip", "endpoint", "hostname"} {
			node.setField(key, host)
		}
	}
}

// renameText rewrites a string of CLUSTER NODES or CLUSTER REPLICAS.
func (t *tree) renameText(to Renamer) {
	if t.body == nil {
		return
	}
	text, prefix := t.text(), ""
	if t.head.Kind == resp.Verbatim && len(text) >= 4 {
		prefix, text = text[:4], text[4:]
	}
	body := appendNodes([]byte(prefix), text, to)
	t.line = append(append([]byte{t.head.Kind}, strconv.Itoa(len(body))...), "\r\n"...)
	t.body = append(body, "\r\n"...)
}

// Rewriting replaces the addresses of nodes in a reply. The zero value replaces none.
type Rewriting struct {
	// Whole: the reply is one element; other replies are lists whose elements are rewritten one by one.
	Whole bool
	// Hidden: an empty list replaces the reply.
	Hidden bool

	rename func(*tree, Renamer)
}

// RewritingOf returns the Rewriting for the reply to a subcommand of CLUSTER or SENTINEL. The "replicas" of
// SENTINEL are called "replicas of" here.
func RewritingOf(subcommand string) Rewriting {
	switch subcommand {
	case "slots":
		return Rewriting{rename: (*tree).renameSlots}
	case "shards":
		return Rewriting{rename: (*tree).renameShards}
	case "nodes", "replicas", "slaves":
		return Rewriting{rename: (*tree).renameText}
	case "get-master-addr-by-name":
		return Rewriting{Whole: true, rename: (*tree).renamePair}
	case "master":
		return Rewriting{Whole: true, rename: (*tree).renameServer}
	case "masters", "replicas of":
		return Rewriting{rename: (*tree).renameServer}
	case "sentinels": // Sentinels do not know the gateways
		return Rewriting{Hidden: true}
	}
	return Rewriting{}
}

// Append appends one element of a reply with its addresses replaced.
func (w Rewriting) Append(dst, b []byte, to Renamer) ([]byte, error) {
	t, rest, err := parseTree(b, 0)
	if err != nil || len(rest) > 0 {
		return nil, errors.Join(err, errTree)
	}
	if w.rename != nil {
		w.rename(&t, to)
	}
	return t.append(dst), nil
}

// IsRedirectOrRetry reports whether an error redirects the client to another node or tells it to wait. The server
// returns such an error before it examines the request.
func IsRedirectOrRetry(text string) bool {
	for _, prefix := range [...]string{"MOVED ", "ASK ", "REDIRECT ", "TRYAGAIN", "CLUSTERDOWN"} {
		if len(text) >= len(prefix) && text[:len(prefix)] == prefix {
			return true
		}
	}
	return false
}

// Replies and messages of Sentinels.

// renameServer rewrites a Sentinel's description of a server.
func (t *tree) renameServer(to Renamer) {
	if host, port, ok := to(t.fieldText("ip"), t.fieldText("port")); ok {
		if name := t.fieldText("name"); name == net.JoinHostPort(t.fieldText("ip"), t.fieldText("port")) {
			t.setField("name", net.JoinHostPort(host, port))
		}
		t.setField("ip", host)
		t.setField("port", port)
	}
	if t.field("master-host") == nil {
		return
	}
	if host, port, ok := to(t.fieldText("master-host"), t.fieldText("master-port")); ok {
		t.setField("master-host", host)
		t.setField("master-port", port)
	}
}

// renamePair rewrites [host port], or null.
func (t *tree) renamePair(to Renamer) {
	if len(t.children) != 2 {
		return
	}
	if host, port, ok := to(t.children[0].text(), t.children[1].text()); ok {
		t.children[0].set(host)
		t.children[1].set(port)
	}
}

// RewritingOfMessage returns the Rewriting for messages that Sentinels publish. For a new primary it first
// calls switched, since a client that receives the message connects at once.
//
//	+switch-master  mymaster 10.0.0.1 6379 10.0.0.2 6379
//	+slave          slave 10.0.0.2:6379 10.0.0.2 6379 @ mymaster 10.0.0.1 6379
func RewritingOfMessage(switched func()) Rewriting {
	return Rewriting{Whole: true, rename: func(t *tree, to Renamer) {
		n := len(t.children)
		if n < 3 {
			return
		}
		if t.children[n-2].text() == "+switch-master" {
			switched()
		}
		t.children[n-1].set(renameWords(t.children[n-1].text(), to))
	}}
}

// renameWords rewrites the addresses among the words of a message.
func renameWords(text string, to Renamer) string {
	words := strings.Split(text, " ")
	for i := range words {
		if at := strings.LastIndexByte(words[i], ':'); at > 0 && isPort(words[i][at+1:]) {
			if host, port, ok := to(words[i][:at], words[i][at+1:]); ok {
				words[i] = host + ":" + port
			}
		}
		if i+1 < len(words) && isPort(words[i+1]) {
			if host, port, ok := to(words[i], words[i+1]); ok {
				words[i], words[i+1] = host, port
			}
		}
	}
	return strings.Join(words, " ")
}

func isPort(s string) bool { return s != "" && len(s) <= 5 && strings.Trim(s, "0123456789") == "" }
