package library

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"testing"
)

type question struct {
	Op           string   `json:"op"`
	Value        []byte   `json:"value"`
	Level        int      `json:"level,omitempty"`
	Dictionary   []byte   `json:"dictionary,omitempty"`
	Dictionaries [][]byte `json:"dictionaries,omitempty"`
	MaxRaw       int      `json:"max_raw,omitempty"`
}

type answer struct {
	Value []byte `json:"value"`
	Error string `json:"error"`
}

// worker is a language's running program.
type worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// start starts a worker, which ends with its test.
func start(t *testing.T, path string, command func(*testing.T, string) []string) *worker {
	t.Helper()
	args := command(t, path)
	w := &worker{cmd: exec.CommandContext(t.Context(), args[0], args[1:]...)}
	w.cmd.Stderr = os.Stderr
	in, err := w.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.in, w.out = in, bufio.NewReader(out)
	t.Cleanup(func() { w.end(t) })
	return w
}

func (w *worker) end(t *testing.T) {
	_ = w.in.Close()
	if err := w.cmd.Wait(); err != nil && !t.Failed() && t.Context().Err() == nil {
		t.Errorf("the worker ended badly: %v", err)
	}
}

func (w *worker) ask(t *testing.T, q question) (a answer) {
	t.Helper()
	q.Value = append([]byte{}, q.Value...) // never nil, since JSON null is no value
	line, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.in.Write(append(line, '\n')); err != nil {
		t.Fatalf("the worker has ended: %v", err)
	}
	line, err = w.out.ReadBytes('\n')
	if err != nil {
		t.Fatalf("the worker has ended: %v", err)
	}
	if err := json.Unmarshal(line, &a); err != nil {
		t.Fatalf("%.200s: %v", line, err)
	}
	return a
}
