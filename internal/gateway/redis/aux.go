package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/cinch-layer/cinch"
	goredis "github.com/redis/go-redis/v9"
)

// auxConn is a session's second connection to the server, for questions that can't be
// asked on the first: what a key holds while a transaction is being queued, and which
// arguments of a command are keys. It is logged in as the client is.
type auxConn struct {
	space  string
	client *goredis.Client
}

func (a *auxConn) close() {
	if a != nil {
		_ = a.client.Close()
	}
}

// auxTimeout bounds every question on the second connection.
const auxTimeout = 5 * time.Second

// beside returns the second connection, in the client's database.
func (s *session) beside() *goredis.Client {
	space := s.where()
	if s.aux != nil && s.aux.space == space {
		return s.aux.client
	}
	s.aux.close()
	who := s.who.Load()
	if who == nil {
		who = &credentials{} // the server's default user, as the client
	}
	s.aux = &auxConn{space: space, client: s.g.dialAs(who, space, s.reads)}
	return s.aux.client
}

// dialAs returns a client of the server with one connection, which it opens when it is
// first used. With readOnly it reads from a replica in a cluster.
func (g *Gateway) dialAs(who *credentials, space string, readOnly bool) *goredis.Client {
	db, _ := strconv.Atoi(space)
	return goredis.NewClient(&goredis.Options{
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return g.dial(ctx) },
		OnConnect: func(ctx context.Context, c *goredis.Conn) error {
			if readOnly {
				_ = c.ReadOnly(ctx).Err() // it may be no cluster
			}
			return nil
		},
		Username: who.user, Password: who.password, DB: db,
		Protocol: 2, PoolSize: 1, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, ContextTimeoutEnabled: true,
		ReadTimeout: auxTimeout, WriteTimeout: auxTimeout,
	})
}

// probeBeside finds the sealed values of keys without touching the client's connection,
// when all that the client has sent before has been carried out. What can't be read is
// left out: if it is sealed, EXEC will say so.
func (s *session) probeBeside(keys [][]byte) (found sealedParts) {
	if !s.settle() {
		found.err = errGone
		return found
	}
	c := s.beside()
	ctx, cancel := context.WithTimeout(s.ctx, auxTimeout)
	defer cancel()
	for _, key := range keys {
		stored, err := s.askBeside(ctx, c, "GET", key)
		if err != nil && strings.HasPrefix(err.Error(), "NOPERM") {
			// The client may run a command on the key but not read it: the gateway looks
			// for itself.
			c = s.g.dialAs(&credentials{s.g.cfg.Upstream.User, s.g.cfg.Upstream.Password}, s.where(), s.reads)
			defer c.Close()
			stored, err = s.askBeside(ctx, c, "GET", key)
		}
		switch {
		case err == nil:
			text, _ := stored.(string)
			found.add(s, key, nil, []byte(text))
		case strings.HasPrefix(err.Error(), "WRONGTYPE") && s.rules().MayHoldHash(s.where(), key):
			s.probeHash(ctx, &found, c, key)
		case elsewhere(err.Error()): // so the command will not run either
		case !errors.Is(err, goredis.Nil) && !strings.HasPrefix(err.Error(), "WRONGTYPE"):
			s.g.cfg.Stats.Error("second_connection")
			s.g.cfg.Log.Warn("second connection failed", "err", err)
			return found
		}
	}
	return found
}

func (s *session) probeHash(ctx context.Context, found *sealedParts, c *goredis.Client, key []byte) {
	list, err := s.askBeside(ctx, c, "EVAL", sealedFieldsScript, 1, key, cinch.Magic, 2*maxSealedFields)
	if err != nil { // no scripts for this user
		length, _ := s.askBeside(ctx, c, "HLEN", key)
		if n, _ := length.(int64); n > maxSealedFields {
			found.fail(errHashTooLarge)
			return
		}
		list, err = s.askBeside(ctx, c, "HGETALL", key)
	}
	pairs := asStrings(list)
	switch {
	case err != nil:
		return
	case len(pairs) > 2*maxSealedFields:
		found.fail(errHashTooLarge)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		found.add(s, key, []byte(pairs[i]), []byte(pairs[i+1]))
	}
}

// askBeside asks on the second connection, behind ASKING where the client has sent that.
func (s *session) askBeside(ctx context.Context, c *goredis.Client, args ...any) (any, error) {
	if !s.asks.on && !s.tx.asking {
		return c.Do(ctx, args...).Result()
	}
	p := c.Pipeline()
	p.Do(ctx, "ASKING")
	answer := p.Do(ctx, args...)
	_, _ = p.Exec(ctx) // the answer has its error
	return answer.Result()
}

// asStrings is a list of strings; what is none of them is empty.
func asStrings(list any) []string {
	items, _ := list.([]any)
	all := make([]string, len(items))
	for i := range items {
		all[i], _ = items[i].(string)
	}
	return all
}

// keysOf asks the server which arguments of a request are keys; none when it has none,
// or when the server would refuse the request anyway.
func (s *session) keysOf(args [][]byte) ([][]byte, error) {
	call := make([]any, 0, len(args)+2)
	call = append(call, "COMMAND", "GETKEYS")
	for _, a := range args {
		call = append(call, a)
	}
	ctx, cancel := context.WithTimeout(s.ctx, auxTimeout)
	defer cancel()
	if !s.settle() { // it may be logging in
		return nil, errGone
	}
	names, err := s.beside().Do(ctx, call...).StringSlice()
	if err != nil {
		var answer goredis.Error
		if errors.As(err, &answer) && !strings.HasPrefix(err.Error(), "NO") { // not NOAUTH, NOPERM
			return nil, nil
		}
		return nil, fmt.Errorf("COMMAND GETKEYS: %w", err)
	}
	keys := make([][]byte, len(names))
	for i, n := range names {
		keys[i] = []byte(n)
	}
	return keys, nil
}
