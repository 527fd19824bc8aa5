package library

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// TestBombsCountWork runs the tests of PHP and Ruby that open envelope/testdata/bombs and count the work for it. The
// suites of the other languages have such a test themselves.
func TestBombsCountWork(t *testing.T) {
	for name, script := range map[string]string{"php": "clients/php/tests/bombs.php", "ruby": "clients/ruby/test/bombs.rb"} {
		t.Run(name, func(t *testing.T) {
			if name == "ruby" {
				testenv.Full(t)
			}
			cmd := exec.Command(testenv.Program(t, name), filepath.Join(root(t), filepath.FromSlash(script)))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v:\n%s", err, out)
			}
		})
	}
}
