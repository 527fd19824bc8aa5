package redis

import (
	"errors"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway"
)

// isNoRight matches the refusal of a command that the user may not run, in a script or elsewhere.
func isNoRight(text string) bool {
	return strings.HasPrefix(text, "NOPERM") || strings.Contains(text, "user executing the script can't ")
}

// lacksRight reports whether err is, or wraps, the server's refusal of a command that the user may not run.
func lacksRight(err error) bool {
	var reply goredis.Error
	return errors.As(err, &reply) && isNoRight(reply.Error())
}

// isNoLua matches the refusal of EVAL by Redis 7.0 and later.
func isNoLua(text string) bool {
	return strings.HasPrefix(text, "NOPERM") && strings.Contains(text, "'eval'")
}

// isNoGuard matches the errors of a guard script that may not run, may not read its keys, or may not write.
// The command itself may still be allowed, and a replica may give another answer to it.
func isNoGuard(text string) bool {
	return isNoRight(text) || strings.Contains(text, "ACL failure in script") || strings.HasPrefix(text, "READONLY ")
}

// isNoFloat matches "ERR value is not a valid float" and "ERR hash value is not a float".
func isNoFloat(text string) bool {
	return strings.HasPrefix(text, "ERR") &&
		(strings.HasSuffix(text, "value is not a valid float") || strings.HasSuffix(text, "hash value is not a float"))
}

// isWrongType matches the error for a key of another type, also from a command in a script.
func isWrongType(text string) bool { return strings.Contains(text, "WRONGTYPE ") }

// isUnknownCommand matches the error for a command that the server does not have.
func isUnknownCommand(text string) bool {
	return strings.Contains(strings.ToLower(text), "unknown command")
}

// isServerError reports whether err is the server's refusal, not a failed connection.
func isServerError(err error) bool {
	var answer goredis.Error
	return errors.As(err, &answer)
}

func isNoLogin(err error) bool {
	text := err.Error()
	return strings.Contains(text, "WRONGPASS") || strings.Contains(text, "NOAUTH") || strings.Contains(text, "AUTH ")
}

// describe returns the error class and the error reply for an error of Open.
func describe(err error) (class, text string) {
	if errors.Is(err, errNoMemory) {
		return "budget", "ERR cinch: " + err.Error()
	}
	class, text = gateway.DecodeFailure(err)
	return class, "ERR cinch: " + text
}

func isOpenError(err error) bool {
	return errors.Is(err, envelope.ErrDamaged) || errors.Is(err, envelope.ErrTooLarge) ||
		errors.Is(err, envelope.ErrUnknownCodec) || errors.Is(err, envelope.ErrDictMissing)
}

// isNotEnvelope reports whether bytes that begin with the magic, which a script may have made up, are not an
// envelope. If they name a dictionary in a well-formed header, it must not distinguish a wrong tag from a
// missing dictionary: that would disclose which dictionaries exist.
func isNotEnvelope(err error) bool {
	return errors.Is(err, envelope.ErrDamaged) && !errors.Is(err, envelope.ErrTag)
}
