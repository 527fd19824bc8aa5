package differential

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// This file reads a server's own description of its commands (COMMAND and COMMAND DOCS), so that the tests
// also use commands and options that nothing in the repository names.

// docCommand is a command, or a subcommand after its container's name.
type docCommand struct {
	words     []string // the name
	group     string
	arity     int64
	flags     []string
	tips      []string
	firstKey  int64
	arguments []docArgument
}

func (c *docCommand) name() string { return strings.ToLower(strings.Join(c.words, " ")) }

// docArgument is an argument as COMMAND DOCS describes it.
type docArgument struct {
	name, kind, token             string
	optional, multiple, tokenEach bool
	arguments                     []docArgument // of a block, or the alternatives of a oneof
}

// docCommands returns a server's commands, sorted by name.
func docCommands(t *testing.T, server *testenv.RedisServer) []docCommand {
	t.Helper()
	c, err := dial(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	infos, err := c.do("COMMAND")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*docCommand{}
	for _, info := range infos.items {
		addInfo(all, nil, info)
	}
	docs, err := c.do("COMMAND", "DOCS")
	if err != nil {
		t.Fatal(err)
	}
	addDocs(all, "", docs)
	var list []docCommand
	for _, name := range sortedNames(all) {
		list = append(list, *all[name])
	}
	return list
}

func sortedNames(all map[string]*docCommand) (names []string) {
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// addInfo adds an element of COMMAND's reply. A container is added only as its subcommands.
func addInfo(all map[string]*docCommand, before []string, info *node) {
	if len(info.items) < 10 {
		return
	}
	_, last, found := strings.Cut(info.items[0].text, "|")
	if !found {
		last = info.items[0].text
	}
	c := &docCommand{words: append(slices.Clone(before), last)}
	if subs := info.items[9].items; len(subs) > 0 {
		for _, sub := range subs {
			addInfo(all, c.words, sub)
		}
		return
	}
	fmt.Sscan(info.items[1].text, &c.arity)
	fmt.Sscan(info.items[3].text, &c.firstKey)
	c.flags, c.tips = texts(info.items[2]), texts(info.items[7])
	all[c.name()] = c
}

func texts(n *node) (out []string) {
	for _, item := range n.items {
		out = append(out, strings.ToLower(item.text))
	}
	return out
}

// addDocs adds documentation, given as pairs of a name and its fields.
func addDocs(all map[string]*docCommand, before string, docs *node) {
	for i := 0; i+1 < len(docs.items); i += 2 {
		name := strings.ToLower(docs.items[i].text)
		if _, last, found := strings.Cut(name, "|"); found {
			name = before + " " + last
		}
		fields := docs.items[i+1]
		if subs := field(fields, "subcommands"); subs != nil {
			addDocs(all, name, subs)
		}
		c := all[name]
		if c == nil {
			continue
		}
		if group := field(fields, "group"); group != nil {
			c.group = group.text
		}
		c.arguments = docArguments(field(fields, "arguments"))
	}
}

// field returns an entry of a map that is encoded as a flat list.
func field(n *node, name string) *node {
	for i := 0; i+1 < len(n.items); i += 2 {
		if n.items[i].text == name {
			return n.items[i+1]
		}
	}
	return nil
}

func docArguments(list *node) (out []docArgument) {
	if list == nil {
		return nil
	}
	for _, item := range list.items {
		a := docArgument{arguments: docArguments(field(item, "arguments"))}
		for name, to := range map[string]*string{"name": &a.name, "type": &a.kind, "token": &a.token} {
			if f := field(item, name); f != nil {
				*to = f.text
			}
		}
		if f := field(item, "flags"); f != nil {
			flags := texts(f)
			a.optional, a.multiple = slices.Contains(flags, "optional"), slices.Contains(flags, "multiple")
			a.tokenEach = slices.Contains(flags, "multiple_token")
		}
		out = append(out, a)
	}
	return out
}
