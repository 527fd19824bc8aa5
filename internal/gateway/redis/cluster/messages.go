package cluster

import (
	"net"
	"strings"
)

// What Sentinels say of servers, in answers and in messages.

// renameServer rewrites what a Sentinel says of a server.
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
	if len(t.kids) != 2 {
		return
	}
	if host, port, ok := to(t.kids[0].text(), t.kids[1].text()); ok {
		t.kids[0].set(host)
		t.kids[1].set(port)
	}
}

// RewritingOfMessage is that of what Sentinels publish. At the news of another primary it calls switched
// first: a client that hears of it connects at once.
//
//	+switch-master  mymaster 10.0.0.1 6379 10.0.0.2 6379
//	+slave          slave 10.0.0.2:6379 10.0.0.2 6379 @ mymaster 10.0.0.1 6379
func RewritingOfMessage(switched func()) Rewriting {
	return Rewriting{Whole: true, rename: func(t *tree, to Renamer) {
		n := len(t.kids)
		if n < 3 {
			return
		}
		if t.kids[n-2].text() == "+switch-master" {
			switched()
		}
		t.kids[n-1].set(renameWords(t.kids[n-1].text(), to))
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
