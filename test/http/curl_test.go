package http

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// curls are command lines that are run both directly and through a gateway. LARGE has 10 MB with
// CINCH_FULL=1, otherwise 1.2 MB: from 1 MiB on curl sends Expect: 100-continue. FILE has 300 kB with
// CINCH_FULL=1, otherwise a quarter of that. GZ is FILE compressed with gzip.
var curls = []string{
	"/text", "-I /text", "-0 /text", "--http2-prior-knowledge /text", "--compressed /text", "-H Accept-Encoding:zstd --compressed /file",
	"--compressed -I /text", "--compressed -0 /text", "--compressed --http2-prior-knowledge /weak",
	"-r 100-199 /file", "-r -10 /file", "-r 0-0,5-9 /file", "-r 999999999- /file", "--compressed -r 100-199 /file", "-C 1000 /file", "--compressed -C 1000 /file",
	`-H If-None-Match:"strong" /file`, `-H If-None-Match:W/"weak" --compressed /weak`, `-H If-Match:"other" /file`, `-H If-Range:"strong" -r 5-9 /file`,
	"-z 2030-01-01 /file", "-z 2001-01-01 --compressed /file",
	"--data-binary @LARGE /echo", "-T LARGE -H Transfer-Encoding:chunked /echo", "--data-binary @FILE /echo", "--data-binary @FILE -H Expect:100-continue /echo", "--data-binary @FILE -H Transfer-Encoding:chunked /echo",
	"-T FILE /echo", "-T FILE --http2-prior-knowledge /echo", "-0 -T FILE /echo", "--compressed -T FILE /echo", "-H Content-Encoding:gzip --data-binary @GZ /echo",
	"-d x=1 /echo", "-d= /echo", "-X POST /echo", "-X POST -H Content-Encoding:gzip -d= /echo", "-F a=@GZ;filename=b -F c=d /status/200", "-G -d q=%zz&a;b /echo",
	"-X DELETE /echo", "-X PROPFIND -d body /echo", "-X OPTIONS --request-target * /", "--path-as-is /echo/../echo", "-X GET -d body /echo",
	"-T FILE -H Expect:100-continue /unauthorized", "-d x -H Expect:100-continue /unauthorized", "-d x -H Expect:something /echo",
	"-L /redirect", "/redirect", "/hints", "--http2-prior-knowledge /hints", "/trailers", "--compressed /trailers", "--raw /trailers", "/events",
	"/status/204", "/status/304", "/status/404", "/status/429", "/status/503", "/status/999",
	"/text /echo /file /text", "--compressed /text /text /weak", "--http2-prior-knowledge /text /echo /text",
	"-H Host:other.test /echo", "-A agent -e referrer -b a=1 -u user:secret /echo", "-H X-Forwarded-For:1.2.3.4 -H Via:x /echo", "-H Connection:close /echo", "-H Cache-Control:no-transform --compressed /text",
	"-H TE:trailers /trailers", "/missing",
}

// dies are command lines whose transfer the server cuts off. Only curl's report of that is compared.
var dies = []string{"/die", "--compressed /die", "--http2-prior-knowledge /die"}

// curl gets the same reply directly and through the gateway, or one that differs only in its coding.
func TestCurl(t *testing.T) {
	t.Parallel()
	curl := testenv.Program(t, "curl")
	direct := serve(t, site())
	through := process(t, "http://"+direct).Addr
	dir := t.TempDir()
	file := []byte(strings.Repeat(string(text), 20))
	write(t, filepath.Join(dir, "LARGE"), []byte(strings.Repeat(string(file), codectest.Amount(4, 4, 34))))
	file = file[:len(file)/codectest.Amount(4, 4, 1)]
	write(t, filepath.Join(dir, "FILE"), file)
	write(t, filepath.Join(dir, "GZ"), gzipped(file))
	var all atOnce
	for _, line := range curls {
		all.run(t, line, func(t *testing.T) {
			want, got := runCurl(t, curl, dir, direct, line), runCurl(t, curl, dir, through, line)
			if got != want {
				t.Errorf("curl %s:\nthrough %.600q\ndirect  %.600q", line, got, want)
			}
		})
	}
	all.Wait()
	for _, line := range dies {
		if got := runCurl(t, curl, dir, through, line); !regexp.MustCompile(`^exit status (18|52|56|92)`).MatchString(got) {
			t.Errorf("curl %s: %.300q", line, got)
		}
	}
}

func write(t *testing.T, file string, b []byte) {
	t.Helper()
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// runCurl returns the exit code, headers and bodies, without the parts that may differ.
func runCurl(t *testing.T, curl, dir, addr, line string) string {
	t.Helper()
	args := []string{"-q", "-sS", "-i", "--max-time", "20"}
	for _, a := range strings.Fields(line) {
		if strings.HasPrefix(a, "/") {
			a = "http://" + addr + a
		}
		args = append(args, a)
	}
	cmd := exec.CommandContext(t.Context(), curl, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return fmt.Sprintln(err) + unlike.ReplaceAllString(sortedHeads(strings.ReplaceAll(string(out), addr, "ADDR")), "")
}

// unlike matches header lines that codings and connections change. A "100 Continue" may come from a gateway
// that has room for the body.
var unlike = regexp.MustCompile(`(?im)^(date|content-encoding|content-length|transfer-encoding|vary|accept-ranges|connection): .*\r\n|^HTTP/1.1 100 Continue\r\n(\r\n)+|boundary=\w+|^--\w{60}`)

func sortedHeads(out string) string {
	parts := strings.Split(out, "\r\n\r\n")
	for i, p := range parts {
		if at := strings.LastIndex(p, "HTTP/"); at >= 0 {
			lines := strings.Split(p[at:], "\r\n")
			slices.Sort(lines[1:])
			parts[i] = p[:at] + strings.Join(lines, "\r\n")
		}
		if strings.HasPrefix(parts[i], "HTTP/") {
			parts[i] += "\r\n"
		}
	}
	return strings.Join(parts, "\r\n\r\n")
}
