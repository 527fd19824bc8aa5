package mongo

import (
	"fmt"
	"testing"
)

func TestTopicsAreRemembered(t *testing.T) {
	topics := &nsCommands{}
	users, find := []byte("shop.users"), []byte("find")
	first := topics.get(users, find)
	users[0], find[0] = 'x', 'x'
	topics.get([]byte("shop.other"), []byte("ping"))
	if string(first.namespace) != "shop.users" || string(first.command) != "find" || topics.get([]byte("shop.users"), []byte("find")) != first {
		t.Errorf("%q %q", first.namespace, first.command)
	}
	if topics.get([]byte("shop.user"), []byte("sfind")) == first || topics.get(make([]byte, maxNSCommandName), find) != nil {
		t.Error("names run together, or have no bound")
	}
	for i := range 2 * maxNSCommands {
		topics.get(fmt.Append(nil, "shop.", i), find)
	}
	if n := len(topics.m); n > maxNSCommands {
		t.Errorf("%d topics", n)
	}
}
