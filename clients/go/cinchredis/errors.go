package cinchredis

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
)

// Errors of commands and of Attach, for errors.Is.
var (
	// ErrRefused: the command would compute on bytes that may be compressed, or is of a type of go-redis whose
	// values or reply cinchredis can't replace. Nothing was sent; of a pipeline, no command was.
	ErrRefused = errors.New("refused by cinchredis")
	// ErrDamaged: the reply holds an envelope that is damaged.
	ErrDamaged = envelope.ErrDamaged
	// ErrDictionaryMissing: the server lacks the dictionary that an envelope names.
	ErrDictionaryMissing = envelope.ErrDictMissing
	// ErrDictionaryUnavailable: the server could not be asked for the dictionary.
	ErrDictionaryUnavailable = errors.New("dictionary is unavailable")
	// ErrTooLarge: an envelope declares more bytes than Options.MaxValue.
	ErrTooLarge = envelope.ErrTooLarge
	// ErrUnknownCodec: an envelope was made by a newer version.
	ErrUnknownCodec = envelope.ErrUnknownCodec
	// ErrUnsupported: Attach does not support the type or the options of the client.
	ErrUnsupported = errors.New("cinchredis does not support the client")
)

func refuseComputation(cmd redis.Cmder, key string) error {
	on := "some values"
	if key != "" {
		on = fmt.Sprintf("values of %q", key)
	}
	return fmt.Errorf("%w: %s would compute on compressed bytes: the policy compresses %s; read the value instead, exclude the key in the policy, "+
		"or send the command through a Cinch gateway, which computes on the value", ErrRefused, cmd.Name(), on)
}

func refuseRaw(cmd redis.Cmder) error {
	return fmt.Errorf("%w: %s as a raw command, whose reply is not read: use Do, or a client without cinchredis", ErrRefused, cmd.Name())
}

func refuseCarrier(cmd redis.Cmder) error {
	return fmt.Errorf("%w: %s as a %T: use the client's own method, or Do", ErrRefused, cmd.Name(), cmd)
}

func notOpened(cmd redis.Cmder, err error) error {
	return fmt.Errorf("%s: a value in the reply can't be opened: %w", cmd.Name(), err)
}
