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
	s.aux = &auxConn{space: space, client: s.g.dialAs(who, space)}
	return s.aux.client
}

// dialAs returns a client of the server with one connection, which it opens when it is
// first used.
func (g *Gateway) dialAs(who *credentials, space string) *goredis.Client {
	up := g.cfg.Upstream
	db, _ := strconv.Atoi(space)
	return goredis.NewClient(&goredis.Options{
		Dialer:   func(ctx context.Context, _, _ string) (net.Conn, error) { return up.Dial(ctx) },
		Username: who.user, Password: who.password, DB: db,
		Protocol: 2, PoolSize: 1, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, ContextTimeoutEnabled: true,
		ReadTimeout: auxTimeout, WriteTimeout: auxTimeout,
	})
}

// probeBeside finds the sealed values of keys without touching the client's connection,
// when all that the client has sent before has been carried out. What can't be read is
// left out: if it is sealed, EXEC will say so.
func (s *session) probeBeside(keys [][]byte) (found sealedParts) {
	if !s.queue.waitEmpty(s.beforeWait) {
		found.err = errGone
		return found
	}
	c := s.beside()
	ctx, cancel := context.WithTimeout(s.ctx, auxTimeout)
	defer cancel()
	for _, key := range keys {
		stored, err := c.Get(ctx, string(key)).Bytes()
		if err != nil && strings.HasPrefix(err.Error(), "NOPERM") {
			// The client may run a command on the key but not read it: the gateway looks
			// for itself.
			c = s.g.dialAs(&credentials{s.g.cfg.Upstream.User, s.g.cfg.Upstream.Password}, s.where())
			defer c.Close()
			stored, err = c.Get(ctx, string(key)).Bytes()
		}
		switch {
		case err == nil:
			found.add(s, key, nil, stored)
		case strings.HasPrefix(err.Error(), "WRONGTYPE") && s.rules().MayHoldHash(s.where(), key):
			s.probeHash(ctx, &found, c, key)
		case !errors.Is(err, goredis.Nil) && !strings.HasPrefix(err.Error(), "WRONGTYPE"):
			s.g.cfg.Stats.Error("second_connection")
			s.g.cfg.Log.Warn("second connection failed", "err", err)
			return found
		}
	}
	return found
}

func (s *session) probeHash(ctx context.Context, found *sealedParts, c *goredis.Client, key []byte) {
	pairs, err := c.Eval(ctx, sealedFieldsScript, []string{string(key)}, cinch.Magic, 2*maxSealedFields).StringSlice()
	if err != nil { // no scripts for this user
		if n := c.HLen(ctx, string(key)).Val(); n > maxSealedFields {
			found.fail(errHashTooLarge)
			return
		}
		pairs, err = c.Do(ctx, "HGETALL", key).StringSlice()
	}
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
	if !s.queue.waitEmpty(s.beforeWait) { // it may be logging in
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
