package http
import ("testing";"net";"net/http";"github.com/cinch-layer/cinch/internal/config/endpoint";"github.com/cinch-layer/cinch/internal/gateway";"github.com/cinch-layer/cinch/internal/gateway/memory")
func BenchmarkSession(b *testing.B) {
	for _, m := range []Sharing{NoHistory, Default} {
		b.Run(map[Sharing]string{NoHistory:"none",Default:"default"}[m], func(b *testing.B) {
			up, _ := endpoint.ParseUpstream("http://127.0.0.1:1", "80")
			g := NewGateway(Config{Name:"a", Upstream: up, Link: m, Requests: memory.NewBudget(1<<20), Replies: memory.NewBudget(1<<20), Stats: gateway.NewStats("a","http")})
			n, _ := net.Pipe()
			b.ReportAllocs()
			for b.Loop() {
				s := newSession(g, n).(*session)
				if s.links != nil { s.leaveLinks() }
			}
		})
	}
	_ = http.StatusOK
}
