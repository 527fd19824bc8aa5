package redis

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

// defaultUser is the user of unauthenticated clients.
const defaultUser = "default"

// Writers implements store.Store.
func (s *Store) Writers(ctx context.Context) store.Writers {
	return store.FindWriters(s.nodes, func(n *Node) ([]store.Writer, error) { return writersOf(ctx, n.client) }, s.base.Username, defaultUser)
}

// writersOf lists the users that may have written values on a server: all but the client's own, and those that may
// only read. The default user is left out if it is off, since other users have replaced it then.
func writersOf(ctx context.Context, c *goredis.Client) (all []store.Writer, err error) {
	users, err := c.Do(ctx, "ACL", "USERS").StringSlice()
	if err != nil && strings.Contains(strings.ToLower(err.Error()), "unknown command") {
		return []store.Writer{{Login: defaultUser}}, nil // a server without users
	}
	if err != nil {
		return nil, err
	}
	if len(users) == 1 {
		return []store.Writer{{Login: users[0]}}, nil
	}
	listed, err := c.Do(ctx, "ACL", "LIST").StringSlice()
	own := c.Options().Username
	for _, line := range listed {
		name, on, w := parseUser(line)
		if name == own && name != defaultUser || name == defaultUser && !on || w == nil {
			continue
		}
		all = append(all, *w)
	}
	return all, err
}

// readOnly lists rules that allow no command that writes.
var readOnly = []string{"+@read", "+@connection", "+@pubsub", "+ping", "+info", "+select", "+auth", "+hello"}

// parseUser reads a line of ACL LIST: "user NAME on ~pattern -@all +@read (~other +set)". It returns no writer for a
// user that can write nowhere.
func parseUser(line string) (name string, on bool, w *store.Writer) {
	words := strings.Split(line, " ") // only spaces of ASCII end a word: the server allows others in names and patterns
	if len(words) < 3 || words[0] != "user" {
		return "", true, &store.Writer{} // unknown to us
	}
	name = words[1]
	everything, writes := false, false
	inSelector, ended := false, false // "(~pattern +command)", which adds rights
	var keys []policy.Pattern
	for _, word := range words[2:] {
		if strings.HasPrefix(word, "(") {
			word, inSelector, ended = word[1:], true, false
		}
		everything = everything || ended // what ended it was part of a pattern
		if inSelector && strings.HasSuffix(word, ")") {
			word, inSelector, ended = word[:len(word)-1], false, true
		}
		permission, pattern, isKey := strings.Cut(word, "~")
		switch {
		case word == "on":
			on = true
		case word == "allkeys":
			everything = true
		case isKey && (permission == "" || strings.HasPrefix(permission, "%") && strings.Contains(permission, "W")):
			everything = everything || pattern == "*" || isUncertain(pattern)
			keys = append(keys, policy.Compile(pattern))
		case strings.HasPrefix(word, "+") || word == "allcommands":
			writes = writes || !slices.Contains(readOnly, word)
		}
	}
	switch {
	case !writes || len(keys) == 0 && !everything:
		return name, on, nil
	case everything:
		return name, on, &store.Writer{Login: name}
	}
	return name, on, &store.Writer{Login: name, MayWrite: func(_ string, key []byte) bool {
		return slices.ContainsFunc(keys, func(p policy.Pattern) bool { return p.Match(key) })
	}}
}

// isUncertain reports whether a pattern may match other keys in the server than here: a parenthesis may be that of a
// selector, and whether the bytes of a range beyond ASCII are negative depends on the server's processor.
func isUncertain(pattern string) bool {
	notASCII := func(r rune) bool { return r >= utf8.RuneSelf }
	isRange := strings.Contains(pattern, "[") && strings.ContainsFunc(pattern, notASCII)
	return isRange || strings.ContainsAny(pattern, "()")
}
