package mongotest

import (
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

func TestMongodAnswers(t *testing.T) {
	s := Start(t, Config{ReplicaSet: "rs0"})
	sent, received := s.Compressed(t, "zstd")
	if sent.In != 0 || received.In != 0 {
		t.Errorf("a client without compression made mongod compress: %+v %+v", sent, received)
	}
	s.Kill()
	if testenv.Accepts(s.Addr) {
		t.Error("a killed server answers")
	}
	if err := s.Restart(t); err != nil {
		t.Fatal(err)
	}
}
