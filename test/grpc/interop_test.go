package grpc

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/interop/grpc_testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

const caseTimeout = time.Minute

// goCases are all cases of grpc-go's client that don't need a Google account.
var goCases = []string{
	"empty_unary", "large_unary", "client_streaming", "server_streaming", "ping_pong", "empty_stream",
	"timeout_on_sleeping_server", "cancel_after_begin", "cancel_after_first_response", "status_code_and_message",
	"special_status_message", "custom_metadata", "unimplemented_method", "unimplemented_service",
	"rpc_soak", "channel_soak", "orca_per_rpc", "orca_oob", // the following ones with make full only
}

// smallCases is the number of cases, from the start, that run without make full.
const smallCases = 14

var soak = []string{
	"-soak_iterations=12", "-soak_num_threads=4", "-soak_overall_timeout_seconds=30", "-soak_per_iteration_max_acceptable_latency_ms=20000",
}

func TestGoInterop(t *testing.T) {
	testenv.NeedsPrograms(t)
	bin := goTools(t)
	wires, cases := []*certificates{nil}, goCases[:smallCases]
	if testenv.IsFull() {
		wires, cases = append(wires, newCertificates(t)), goCases
	}
	for _, c := range wires {
		server := startInteropServer(t, bin, c)
		for _, r := range routes {
			if !testenv.IsFull() && (r.gateways == 0 || r.gateways == 2 && !r.link) {
				continue // without CINCH_FULL=1: one gateway and one pair only
			}
			t.Run(wireName(c)+"/"+r.name, func(t *testing.T) {
				t.Parallel()
				addr := r.addr(t, server, c)
				for _, name := range cases {
					t.Run(name, func(t *testing.T) { goCase(t, bin, addr, name, c) })
				}
			})
		}
	}
}

func wireName(c *certificates) string {
	if c == nil {
		return "h2c"
	}
	return "TLS"
}

// goTools installs the Go programs of the script test/grpc/tools and returns their directory.
func goTools(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "./tools").Output()
	if err != nil {
		t.Fatalf("test/grpc/tools: %v", err)
	}
	return strings.TrimSpace(string(out))
}

func startInteropServer(t *testing.T, bin string, c *certificates) string {
	t.Helper()
	args := []string{"-port", "PORT"}
	if c != nil {
		args = append(args, "-use_tls", "-tls_cert_file", c.cert, "-tls_key_file", c.key)
	}
	return testenv.Server(t, filepath.Join(bin, "server"), args...)
}

func goCase(t *testing.T, bin, addr, name string, c *certificates) {
	host, port, _ := net.SplitHostPort(addr)
	args := []string{"-server_host", host, "-server_port", port, "-test_case", name}
	if strings.HasSuffix(name, "_soak") {
		args = append(args, soak...)
	}
	if strings.HasPrefix(name, "orca_") {
		args = append(args, "-service_config_json", `{"loadBalancingConfig":[{"test_backend_metrics_load_balancer":{}}]}`)
	}
	if c != nil {
		args = append(args, "-use_tls", "-use_test_ca", "-ca_file", c.ca, "-server_host_override", authority)
	}
	program(t, filepath.Join(bin, "client"), args...)
}

// program runs a client to its end and returns its standard output; a failure fails the test.
func program(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONUTF8=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Errorf("%s %v: %v\n%.4000s\n%.4000s", filepath.Base(name), args, err, stdout.String(), stderr.String())
	}
	return stdout.String()
}

// The standard cases on grpc-java's own server, and its cases of compression, where the server compresses
// individual messages as the client asks.
const (
	javaCases           = "large_unary,ping_pong,custom_metadata,special_status_message,timeout_on_sleeping_server,cancel_after_first_response"
	javaServerCompress  = "server_compressed_unary,server_compressed_streaming"
	javaClientCompress  = "client_compressed_unary,client_compressed_streaming"
	javaServerClassName = "io.grpc.testing.integration.TestServiceServer"
)

func TestJavaInterop(t *testing.T) {
	testenv.Full(t)
	java, classes := testenv.Program(t, "java"), testenv.JavaClasses(t, "java/pom.xml", "java/Cases.java")
	javaServer := testenv.Server(t, java, "-cp", classes, javaServerClassName, "--port=PORT", "--use_tls=false")
	checking := serve(t, newCheckingServer())
	for _, r := range routes {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			runJavaCases(t, java, classes, r.addr(t, javaServer, nil), javaCases+","+javaServerCompress)
			runJavaCases(t, java, classes, r.addr(t, checking, nil), javaClientCompress)
		})
	}
}

func runJavaCases(t *testing.T, java, classes, addr, names string) {
	t.Helper()
	host, port, _ := net.SplitHostPort(addr)
	out := program(t, java, "-cp", classes, "Cases", names, "--server_host="+host, "--server_port="+port, "--use_tls=false")
	for name := range strings.SplitSeq(names, ",") {
		if !strings.Contains(out, "ok "+name+"\n") {
			t.Errorf("%s did not pass", name)
		}
	}
}

// newCheckingServer answers INVALID_ARGUMENT when a request that should be compressed is not. The
// interoperability servers of grpc-go and grpc-java do not check this.
func newCheckingServer() *grpc.Server {
	s := grpc.NewServer(grpc.StatsHandler(sizeHandler{}))
	grpc_testing.RegisterTestServiceServer(s, checkingService{})
	return s
}
