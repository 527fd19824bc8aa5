package library

import (
	"os/exec"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/testenv"
)

// To the readers in PHP and Ruby, a library that holds no dictionary is a missing one. The suites of the other
// languages have such a test themselves.
func TestDamagedLibraryIsNoDictionary(t *testing.T) {
	server := testenv.Redis(t)
	c := goredis.NewClient(&goredis.Options{Addr: server.Addr})
	defer c.Close()
	for _, line := range []string{"-- zstd 26 !!!", "-- zstd 26 KLUv/SAQ", "-- zstd 26 KA==", "-- \xff\n-- zstd 26 KA==", "-- zstd 99999999 KA==", "-- nothing"} {
		code := "#!lua name=cinch_dict_00000001\n" + line + "\nredis.register_function('f', function() return 'short' end)\n"
		if err := c.Do(t.Context(), "FUNCTION", "LOAD", "REPLACE", code).Err(); err != nil {
			t.Fatal(err)
		}
		at := strings.LastIndex(server.Addr, ":")
		for name, script := range map[string][]string{
			"php": {"-r", `require "clients/php/autoload.php";
				$r = new Redis(); $r->connect($argv[1], (int) $argv[2]);
				try { Cinch\Dictionary::find(new Cinch\Store($r), 1); } catch (\Throwable $e) { echo get_class($e); }`, "--"},
			"ruby": {"-I", "clients/ruby/lib", "-r", "redis", "-r", "cinch/layer", "-e", `
				store = Cinch::Layer::Store.new(Redis.new(host: ARGV[0], port: ARGV[1].to_i))
				begin; Cinch::Layer::Dictionary.find(store, 1); rescue StandardError => e; print e.class; end`, "--"},
		} {
			if name == "ruby" && !strings.Contains(line, "\xff") {
				continue // one is enough: it takes long to start
			}
			cmd := exec.Command(testenv.Program(t, name), append(script, server.Addr[:at], server.Addr[at+1:])...)
			cmd.Dir = root(t)
			if out, err := cmd.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "DictionaryMissing") {
				t.Errorf("%s, %q: %v %s", name, line, err, out)
			}
		}
	}
}
