package testenv

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// AskAdmin gets a path of the admin page at host:port and returns the response with any status.
func AskAdmin(t testing.TB, admin, path string) (status int, body string) {
	t.Helper()
	resp, err := http.Get("http://" + admin + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// AdminAction posts an action with the bearer token and returns the response with any status.
func AdminAction(t testing.TB, admin, token, action, posted string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+admin+"/api/actions/"+action, strings.NewReader(posted))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// AdminPage returns the body of an admin page. A status other than 200 fails the test.
func AdminPage(t testing.TB, admin, path string) string {
	t.Helper()
	status, body := AskAdmin(t, admin, path)
	if status != http.StatusOK {
		t.Fatalf("%s: %d %s", path, status, body)
	}
	return body
}

// AdminJSON decodes the JSON of an admin page into v. A status other than 200 fails the test.
func AdminJSON(t testing.TB, admin, path string, v any) {
	t.Helper()
	body := AdminPage(t, admin, path)
	if err := json.Unmarshal([]byte(body), v); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, body)
	}
}

// Metric returns the sum of a counter or gauge in /metrics over all its labels. If name includes labels, it
// returns that one sample.
func (g *GatewayServer) Metric(t testing.TB, name string) float64 {
	t.Helper()
	return AdminMetric(t, g.Admin, name)
}

// AdminMetric does the same as Metric for any process with an admin page.
func AdminMetric(t testing.TB, admin, name string) float64 {
	t.Helper()
	sum, err := sumSamples(AdminPage(t, admin, "/metrics"), name)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func sumSamples(page, name string) (sum float64, err error) {
	for line := range strings.Lines(page) {
		rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), name)
		if !ok || !strings.HasPrefix(rest, " ") && !strings.HasPrefix(rest, "{") {
			continue
		}
		v, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", name, err)
		}
		sum += v
	}
	return sum, nil
}
