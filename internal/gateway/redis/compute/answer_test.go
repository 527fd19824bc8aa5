package compute

import (
	"strings"
	"testing"
)

// computeOn runs Answer on a command line split at blanks.
func computeOn(line, value string, exists bool) string {
	var args [][]byte
	for _, a := range strings.Fields(line) {
		args = append(args, []byte(a))
	}
	return string(Answer(nil, args, []byte(value), exists))
}

func TestComputeAnswersLikeRedis(t *testing.T) {
	const (
		notInt = "-ERR value is not an integer or out of range\r\n"
		syntax = "-ERR syntax error\r\n"
		offset = "-ERR bit offset is not an integer or out of range\r\n"
		ftype  = "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.\r\n"
	)
	for _, c := range []struct{ line, value, want string }{
		{"STRLEN k", "hello", ":5\r\n"},
		{"strlen k x", "hello", "-ERR wrong number of arguments for 'strlen' command\r\n"},
		{"HStrLen k f", "abc", ":3\r\n"},
		{"getrange k 0 -1", "hello", "$5\r\nhello\r\n"},
		{"SUBSTR k 1 2", "hello", "$2\r\nel\r\n"},
		{"GETRANGE k -3 -2", "hello", "$2\r\nll\r\n"},
		{"GETRANGE k -2 -3", "hello", "$0\r\n\r\n"},
		{"GETRANGE k 9223372036854775807 -9223372036854775808", "hello", "$0\r\n\r\n"},
		{"GETRANGE k x y", "hello", notInt},
		{"GETBIT k 7", "a", ":1\r\n"},
		{"GETBIT k 8", "a", ":0\r\n"},
		{"GETBIT k 4294967295", "a", ":0\r\n"},
		{"GETBIT k 4294967296", "a", offset},
		{"GETBIT k -1", "a", offset},
		{"BITCOUNT k", "foobar", ":26\r\n"},
		{"BITCOUNT k 1 1", "foobar", ":6\r\n"},
		{"BITCOUNT k 5 30 bit", "foobar", ":17\r\n"},
		{"BITCOUNT k 1", "foobar", syntax},
		{"BITCOUNT k -1 -2 nonsense", "foobar", ":0\r\n"},
		{"BITCOUNT k 0 1 nonsense", "foobar", syntax},
		{"BITPOS k 0", "\xff\xf0\x00", ":12\r\n"},
		{"BITPOS k 0", "\xff\xff", ":16\r\n"},
		{"BITPOS k 0 0 -1", "\xff\xff", ":-1\r\n"},
		{"BITPOS k 1", "\x00\x00", ":-1\r\n"},
		{"BITPOS k 1 7 15 BIT", "\x00\xff", ":8\r\n"},
		{"BITPOS k 2", "a", "-ERR The bit argument must be 1 or 0.\r\n"},
		{"BITPOS k 1 0 x nonsense", "a", syntax},
		{"BITFIELD_RO k", "a", "*0\r\n"},
		{"BITFIELD_RO k GET u8 0 get i8 #1", "a\xff", "*2\r\n:97\r\n:-1\r\n"},
		{"BITFIELD_RO k OVERFLOW sat GET i64 4", "\x0f\xff\xff\xff\xff\xff\xff\xff\xf0", "*1\r\n:-1\r\n"},
		{"BITFIELD_RO k GET u64 0", "a", ftype},
		{"BITFIELD_RO k GET i8 #-1", "a", offset},
		{"BITFIELD_RO k SET u8 0 1", "a", "-ERR BITFIELD_RO only supports the GET subcommand\r\n"},
		{"BITFIELD_RO k SET u8 0 x", "a", notInt},
		{"BITFIELD_RO k GET u8", "a", syntax},
	} {
		if got := computeOn(c.line, c.value, true); got != c.want {
			t.Errorf("%s on %q: %q, want %q", c.line, c.value, got, c.want)
		}
	}
}

func TestComputeOnMissingKey(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"STRLEN k", ":0\r\n"},
		{"HSTRLEN k f", ":0\r\n"},
		{"GETRANGE k 0 -1", "$0\r\n\r\n"},
		{"GETRANGE k 0 x", "-ERR value is not an integer or out of range\r\n"},
		{"GETBIT k 3", ":0\r\n"},
		{"BITCOUNT k x y z", ":0\r\n"},
		{"BITPOS k 0 x y z", ":0\r\n"},
		{"BITPOS k 1", ":-1\r\n"},
		{"BITFIELD_RO k GET u8 0", "*1\r\n:0\r\n"},
	} {
		if got := computeOn(c.line, "stale", false); got != c.want {
			t.Errorf("%s: %q, want %q", c.line, got, c.want)
		}
	}
}

func TestComputeDoesNotAllocate(t *testing.T) {
	value := []byte(strings.Repeat("some value ", 100))
	dst := make([]byte, 0, 4096)
	for _, line := range []string{
		"STRLEN k", "GETRANGE k 3 800", "GETBIT k 77", "BITCOUNT k 3 900 BIT", "BITPOS k 1 30 700",
		"BITFIELD_RO k GET u8 0 GET i33 #3", "GETRANGE k a b", "STRLEN",
	} {
		var args [][]byte
		for _, a := range strings.Fields(line) {
			args = append(args, []byte(a))
		}
		if n := testing.AllocsPerRun(50, func() { Answer(dst, args, value, true) }); n != 0 {
			t.Errorf("%s allocates %v times", line, n)
		}
	}
}
