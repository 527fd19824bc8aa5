package differential

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// node is a reply as a tree.
type node struct {
	kind  byte
	text  string // of scalars and strings
	null  bool
	items []*node
}

func parse(frame []byte) (*node, error) {
	n, rest, err := parseNode(frame)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes behind the reply", len(rest))
	}
	return n, err
}

func parseNode(b []byte) (*node, []byte, error) {
	end := bytes.Index(b, []byte("\r\n"))
	if end < 1 {
		return nil, nil, fmt.Errorf("no line in %.40q", b)
	}
	line, rest := b[:end+2], b[end+2:]
	n := &node{kind: b[0], text: string(b[1:end])}
	switch n.kind {
	case '$', '=', '!':
		size, err := strconv.Atoi(n.text)
		if err != nil || size >= 0 && size > len(rest)-2 {
			return nil, nil, fmt.Errorf("bad length %q", line)
		}
		if n.null = size < 0; n.null {
			return n, rest, nil
		}
		n.text = string(rest[:size])
		return n, rest[size+2:], nil
	case '*', '~', '>', '%':
		count, err := elements(line)
		if err != nil {
			return nil, nil, err
		}
		n.null = n.text == "-1"
		for range count {
			var item *node
			if item, rest, err = parseNode(rest); err != nil {
				return nil, nil, err
			}
			n.items = append(n.items, item)
		}
		n.text = ""
	}
	return n, rest, nil
}

// norm says which differences between replies are allowed.
type norm uint8

const (
	exact         norm = iota
	sortedItems        // order of the elements
	sortedPairs        // order of the field-value pairs, flat or nested
	sortedScan         // cursor 0 and elements in any order
	sortedScanKV       // cursor 0 and pairs in any order
	seconds            // a time to live or an expiry in seconds
	millis             // the same in milliseconds
	anyText            // kind only: IDs made from the clock
	helloReply         // the connection's ID
	streamInfo         // sizes of the radix tree
	idleTimes          // integers called idle, and in XPENDING's extended form
	pendingDetail      // XPENDING with a range
	nearby             // integers are times and may differ a little
	leaves             // order, at any depth
)

// agree reports whether two replies are equal except for the differences that n allows.
func agree(n norm, plain, gateway []byte) bool {
	if bytes.Equal(plain, gateway) {
		return true
	}
	if n == exact {
		return false
	}
	a, err1 := parse(plain)
	b, err2 := parse(gateway)
	return err1 == nil && err2 == nil && agreeTrees(n, a, b)
}

func agreeTrees(n norm, a, b *node) bool {
	if a.kind != b.kind {
		return false
	}
	switch n {
	case seconds:
		return near(a, b, 5)
	case millis:
		return near(a, b, 5000)
	case anyText:
		return a.null == b.null
	case nearby:
		return nearTrees(a, b)
	case leaves:
		return slices.Equal(a.leaves(nil), b.leaves(nil))
	}
	normalise(n, a)
	normalise(n, b)
	return a.String() == b.String()
}

func near(a, b *node, tolerance int64) bool {
	x, err1 := strconv.ParseInt(a.text, 10, 64)
	y, err2 := strconv.ParseInt(b.text, 10, 64)
	if err1 != nil || err2 != nil {
		return a.String() == b.String()
	}
	if x < 0 || y < 0 {
		return x == y
	}
	return x-y <= tolerance && y-x <= tolerance
}

// nearTrees compares trees whose integers are times in seconds or milliseconds.
func nearTrees(a, b *node) bool {
	if len(a.items) != len(b.items) || a.kind != b.kind {
		return false
	}
	for i := range a.items {
		if !nearTrees(a.items[i], b.items[i]) {
			return false
		}
	}
	return len(a.items) > 0 || near(a, b, 10_000)
}

// leaves returns the scalars and strings of a tree, sorted.
func (t *node) leaves(out []string) []string {
	if len(t.items) == 0 {
		out = append(out, t.String())
	}
	for _, item := range t.items {
		out = item.leaves(out)
	}
	slices.Sort(out)
	return out
}

func normalise(n norm, t *node) {
	switch n {
	case sortedItems:
		sortNodes(t.items)
	case sortedPairs:
		t.items = pairs(t.items)
		sortNodes(t.items)
	case sortedScan:
		if len(t.items) == 2 {
			sortNodes(t.items[1].items)
		}
	case sortedScanKV:
		if len(t.items) == 2 {
			normalise(sortedPairs, t.items[1])
		}
	case helloReply:
		blankAfter(t, "id")
	case streamInfo:
		blankAfter(t, "radix-tree-keys", "radix-tree-nodes")
	case idleTimes:
		blankAfter(t, "idle", "inactive", "seen-time", "active-time")
	case pendingDetail:
		for _, item := range t.items {
			if len(item.items) == 4 {
				item.items[2].text = "?"
			}
		}
	}
}

// pairs groups a flat list into nodes of two elements.
func pairs(items []*node) []*node {
	var out []*node
	for i := 0; i < len(items); i++ {
		if items[i].kind == '*' || i+1 == len(items) {
			out = append(out, items[i])
			continue
		}
		out = append(out, &node{kind: '*', items: items[i : i+2]})
		i++
	}
	return out
}

func sortNodes(items []*node) {
	slices.SortFunc(items, func(a, b *node) int { return strings.Compare(a.String(), b.String()) })
}

// blankAfter removes the integers that follow one of the names, at any depth.
func blankAfter(t *node, names ...string) {
	for i, item := range t.items {
		if i > 0 && slices.Contains(names, t.items[i-1].text) && item.kind == ':' {
			item.text = "?"
		}
		blankAfter(item, names...)
	}
}

// String returns a text that is unique for the tree.
func (t *node) String() string {
	var b strings.Builder
	t.write(&b)
	return b.String()
}

func (t *node) write(b *strings.Builder) {
	b.WriteByte(t.kind)
	if t.null {
		b.WriteByte('0')
		return
	}
	if t.kind == '*' || t.kind == '~' || t.kind == '%' || t.kind == '>' {
		b.WriteByte('(')
		for _, item := range t.items {
			item.write(b)
			b.WriteByte(' ')
		}
		b.WriteByte(')')
		return
	}
	fmt.Fprintf(b, "%q", t.text)
}
