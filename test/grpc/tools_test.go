package grpc

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/cinch-layer/cinch/test/testenv"
)

// newToolServer returns a server with the services that the tools use: reflection, health, and a service to
// call.
func newToolServer() *grpc.Server {
	s := newCheckingServer()
	h := health.NewServer()
	h.SetServingStatus("grpc.testing.TestService", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	grpc_health_v1.RegisterHealthServer(s, h)
	reflection.Register(s)
	return s
}

// grpcurlCalls must print the same on every route.
var grpcurlCalls = [][]string{
	{"ADDR", "list"},
	{"ADDR", "describe", "grpc.testing.TestService"},
	{"ADDR", "describe", "grpc.testing.SimpleRequest"},
	{"ADDR", "grpc.health.v1.Health/Check"},
	{"-d", `{"service":"grpc.testing.TestService"}`, "ADDR", "grpc.health.v1.Health/Check"},
	{"-d", `{"responseSize":64}`, "ADDR", "grpc.testing.TestService/UnaryCall"},
}

func TestHealthAndReflection(t *testing.T) {
	testenv.NeedsPrograms(t)
	curl := filepath.Join(goTools(t), "grpcurl")
	server := serve(t, newToolServer())
	var want string
	for _, r := range routes {
		if r.name == "two gateways" && !testenv.IsFull() {
			continue
		}
		got := runGrpcurl(t, curl, r.addr(t, server, nil))
		if r.gateways == 0 {
			want = got
			if !strings.Contains(want, "NOT_SERVING") || !strings.Contains(want, "rpc FullDuplexCall") {
				t.Fatalf("grpcurl did not get through directly:\n%s", want)
			}
			continue
		}
		compareLines(t, r.name, want, got)
	}
}

func runGrpcurl(t *testing.T, curl, addr string) string {
	t.Helper()
	var out strings.Builder
	for _, call := range grpcurlCalls {
		args := []string{"-plaintext", "-authority", authority}
		for _, a := range call {
			args = append(args, strings.ReplaceAll(a, "ADDR", addr))
		}
		out.WriteString(program(t, curl, args...))
	}
	return out.String()
}

// TestLoadTool checks that thousands of concurrent calls, small and large, have no error.
func TestLoadTool(t *testing.T) {
	testenv.Full(t)
	ghz := filepath.Join(goTools(t), "ghz")
	server := serve(t, newToolServer())
	for _, r := range routes {
		t.Run(r.name, func(t *testing.T) {
			addr := r.addr(t, server, nil)
			runGhz(t, ghz, addr, 5000, `{"responseSize":100}`)
			runGhz(t, ghz, addr, 300, `{"responseSize":300000}`)
		})
	}
}

func runGhz(t *testing.T, ghz, addr string, calls int, request string) {
	t.Helper()
	out := program(t, ghz, "--insecure", "--call", "grpc.testing.TestService/UnaryCall", "-d", request,
		"-n", fmt.Sprint(calls), "-c", "50", "--connections", "4", "--format", "json", addr)
	var report struct {
		Count  int            `json:"count"`
		Errors map[string]int `json:"errorDistribution"`
		Codes  map[string]int `json:"statusCodeDistribution"`
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("ghz printed %.500q: %v", out, err)
	}
	if len(report.Errors) > 0 || report.Codes["OK"] != calls {
		t.Errorf("%s: %d calls, codes %v, errors %v", request, report.Count, report.Codes, report.Errors)
	}
}
