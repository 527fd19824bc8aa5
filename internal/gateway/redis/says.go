package redis

import (
	"errors"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway"
)

// isNoRight matches the refusal of a command that the user may not run, in a script or elsewhere.
func isNoRight(text string) bool {
	return strings.HasPrefix(text, "NOPERM") || strings.Contains(text, "user executing the script can't ")
}

// isNoLua matches the server's refusal of EVAL, of Redis 7.0 and later.
func isNoLua(text string) bool {
	return strings.HasPrefix(text, "NOPERM") && strings.Contains(text, "'eval'")
}

// isNoGuard matches what a guard answers that may not run, may not look at its keys, or may not write: the
// command itself may be allowed, and a replica may have more to say about it.
func isNoGuard(text string) bool {
	return isNoRight(text) || strings.Contains(text, "ACL failure in script") || strings.HasPrefix(text, "READONLY ")
}

// isNoFloat matches "ERR value is not a valid float" and "ERR hash value is not a float".
func isNoFloat(text string) bool {
	return strings.HasPrefix(text, "ERR") &&
		(strings.HasSuffix(text, "value is not a valid float") || strings.HasSuffix(text, "hash value is not a float"))
}

// isWrongType matches the server's complaint about the kind of a key, of a script's command too.
func isWrongType(text string) bool { return strings.Contains(text, "WRONGTYPE ") }

// isUnknownCommand matches the server's refusal of a command that it does not have.
func isUnknownCommand(text string) bool {
	return strings.Contains(strings.ToLower(text), "unknown command")
}

// isDenial reports that the server answered, and that the user may not ask.
func isDenial(err error) bool {
	var answer goredis.Error
	return errors.As(err, &answer)
}

func isNoLogin(err error) bool {
	text := err.Error()
	return strings.Contains(text, "WRONGPASS") || strings.Contains(text, "NOAUTH") || strings.Contains(text, "AUTH ")
}

// describe turns what Open answers into an error class and an error reply.
func describe(err error) (class, text string) {
	if errors.Is(err, errNoRoom) {
		return "budget", "ERR cinch: " + err.Error()
	}
	class, text = gateway.Unopened(err)
	return class, "ERR cinch: " + text
}

func isOpenError(err error) bool {
	return errors.Is(err, cinch.ErrDamaged) || errors.Is(err, cinch.ErrTooLarge) ||
		errors.Is(err, cinch.ErrUnknownCodec) || errors.Is(err, cinch.ErrDictMissing)
}

// isNoEnvelope reports of bytes that begin with the magic, and that a script may have made up, that
// nobody sealed them. Where they name a dictionary in a well-formed header, an answer that told a
// wrong tag from a missing dictionary would tell which dictionaries there are.
func isNoEnvelope(err error) bool {
	return errors.Is(err, cinch.ErrDamaged) && !errors.Is(err, cinch.ErrTag)
}
