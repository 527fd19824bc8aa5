package cli

import (
	"errors"
	"os"
	"strconv"

	"filippo.io/age"

	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/recording"
)

// parseSpeed parses the speed of a replay: a factor, or max, which is 0.
func parseSpeed(text string) (float64, error) {
	if text == "max" {
		return 0, nil
	}
	speed, err := strconv.ParseFloat(text, 64)
	if err != nil || speed < 0.01 || speed > 1000 {
		return 0, usage("--speed: %q must be max or a factor between 0.01 and 1000", text)
	}
	return speed, nil
}

// openRecording opens a recording at its beginning, after reading all of it for the summary.
func openRecording(name string, identityFiles []string) (*recording.Opened, recording.Summary, error) {
	var size recording.Summary
	identities, err := readIdentities(identityFiles)
	if err != nil {
		return nil, size, err
	}
	all, err := recording.Open(name, identities...)
	if errors.Is(err, recording.ErrEncrypted) {
		err = terminal.WithHint(err, "give --identity KEYFILE")
	}
	if err != nil {
		return nil, size, err
	}
	size, err = recording.Summarize(all.Reader)
	if err = errors.Join(err, all.Close()); err != nil {
		return nil, size, err
	}
	in, err := recording.Open(name, identities...)
	return in, size, err
}

func readIdentities(files []string) ([]age.Identity, error) {
	var all []age.Identity
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, usage("--identity: %w", err)
		}
		some, err := age.ParseIdentities(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, usage("%s: %w", name, err)
		}
		all = append(all, some...)
	}
	return all, nil
}
