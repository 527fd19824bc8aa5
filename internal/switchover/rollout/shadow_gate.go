package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/internal/config"
)

// The latency gate: the verdict of a mirror of the same traffic (cinch shadow) on the new configuration.

// Shadow configures a mirror whose verdict is a gate.
type Shadow struct {
	// Output of cinch shadow --json: a file, or the mirror's admin page (http://host:port).
	Report string          `yaml:"report"`
	Test   string          `yaml:"test"`   // host:port of its test target, which has the configuration of the new nodes
	Margin float64         `yaml:"margin"` // widest allowed margin of a judged metric; 0.1
	Age    config.Duration `yaml:"age"`    // highest allowed age of its last batch; 24 h
	Wait   config.Duration `yaml:"wait"`   // how long to wait for a verdict; 1 h
}

func (s *Shadow) fill() {
	if s.Margin == 0 {
		s.Margin = 0.1
	}
	if s.Age == 0 {
		s.Age = config.Duration(24 * time.Hour)
	}
	if s.Wait == 0 {
		s.Wait = config.Duration(time.Hour)
	}
}

func (s *Shadow) validate() error {
	if s.Report != "" && s.Test == "" {
		return errors.New("gates: shadow: set test to the host:port of the mirror's test target, so that another run's verdict is not used")
	}
	return nil
}

// verdict holds the parts of a report that the gate reads; docs/SHADOW.md has the format.
type verdict struct {
	Outcome string    `json:"outcome"`
	Reasons []string  `json:"reasons"`
	Test    string    `json:"test"`
	Began   time.Time `json:"began"`
	Series  []struct {
		At time.Time `json:"at"`
	} `json:"series"`
	Metrics []struct {
		Name   string  `json:"name"`
		Margin float64 `json:"margin"`
		Judged bool    `json:"judged"`
	} `json:"metrics"`
}

// latency waits for a verdict. Any verdict but PASS closes the gate.
func (p preparation) latency(ctx context.Context) error {
	s := p.cell.Gates.Shadow
	if s.Report == "" {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, time.Duration(s.Wait))
	defer cancel()
	for last := (*verdict)(nil); ; {
		v, err := s.read(waiting)
		if err != nil && last != nil && waiting.Err() != nil {
			v, err = last, nil // the time was up before the answer came
		}
		if err == nil {
			err = s.fits(v)
		}
		switch {
		case err != nil:
			return fmt.Errorf("%w: the mirror's report: %w", ErrGate, err)
		case v.Outcome == "PASS":
			p.log("the mirror's verdict is PASS, of %s", v.last().Format(time.RFC3339))
			return nil
		case v.Outcome != "INCONCLUSIVE":
			return fmt.Errorf("%w: the mirror's verdict is %s: %s", ErrGate, v.Outcome, strings.Join(v.Reasons, "; "))
		case last == nil:
			p.log("the mirror's verdict is INCONCLUSIVE: waiting for up to %v", time.Duration(s.Wait))
		}
		last = v
		if err := pause(waiting); err != nil {
			return errors.Join(ctx.Err(), fmt.Errorf("%w: the mirror's verdict is INCONCLUSIVE for %v: %s", ErrGate, time.Duration(s.Wait), strings.Join(v.Reasons, "; ")))
		}
	}
}

// fits returns an error if a report is for another target, is too old, or has too wide a margin.
func (s *Shadow) fits(v *verdict) error {
	if v.Test != s.Test {
		return fmt.Errorf("its test target is %q, expected %s", v.Test, s.Test)
	}
	switch age := time.Since(v.last()); {
	case age > time.Duration(s.Age):
		return fmt.Errorf("its last batch ended %v ago, limit %v", age.Round(time.Minute), time.Duration(s.Age))
	case age < -clocksDiffer:
		return fmt.Errorf("its last batch ends %v in the future: the clocks of the two machines differ", -age.Round(time.Minute))
	}
	judged := false
	for _, m := range v.Metrics {
		judged = judged || m.Judged
		if m.Judged && m.Margin > s.Margin {
			return fmt.Errorf("its margin for %s is %g, limit %g", m.Name, m.Margin, s.Margin)
		}
	}
	if v.Outcome == "PASS" && !judged {
		return errors.New("it has no verdict on latency")
	}
	return nil
}

// clocksDiffer is the allowed difference between the clocks of two machines.
const clocksDiffer = 5 * time.Minute

// last returns the end of the last batch.
func (v *verdict) last() time.Time {
	if n := len(v.Series); n > 0 {
		return v.Series[n-1].At
	}
	return v.Began
}

// maxReportBytes limits a report; that of a long run is smaller.
const maxReportBytes = 64 << 20

func (s *Shadow) read(ctx context.Context) (*verdict, error) {
	text, err := s.text(ctx)
	if err != nil {
		return nil, err
	}
	var v verdict
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	if v.Outcome == "" || v.Began.IsZero() {
		return nil, fmt.Errorf("%s is not a report of cinch shadow", s.Report)
	}
	return &v, nil
}

func (s *Shadow) text(ctx context.Context) ([]byte, error) {
	if !strings.Contains(s.Report, "://") {
		return os.ReadFile(s.Report)
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(s.Report, "/")+"/api/report", nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", s.Report, answer.Status)
	}
	return io.ReadAll(io.LimitReader(answer.Body, maxReportBytes))
}
