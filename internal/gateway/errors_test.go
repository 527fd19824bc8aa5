package gateway

import (
	"errors"
	"fmt"
	"io"
	"testing"
)

// The first class that matches counts.
func TestErrorClasses(t *testing.T) {
	a, b := errors.New("a"), errors.New("b")
	classes := ErrorClasses{{a, "first"}, {b, "second"}}
	for _, test := range []struct {
		err  error
		want string
	}{{nil, ""}, {io.EOF, ""}, {a, "first"}, {fmt.Errorf("wrapped: %w", b), "second"}, {errors.Join(b, a), "first"}} {
		if got := classes.Of(test.err); got != test.want {
			t.Errorf("%v is %q, not %q", test.err, got, test.want)
		}
	}
}
