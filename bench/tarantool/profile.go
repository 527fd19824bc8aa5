package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// profiled fetches a profile of the router in the background, if wanted.
func (s *stage) profiled(ctx context.Context, phase string, wanted bool) <-chan error {
	done := make(chan error, 1)
	if s.admin == "" || !wanted {
		done <- nil
		return done
	}
	go func() { done <- s.fetchProfile(ctx, phase) }()
	return done
}

func (s *stage) fetchProfile(ctx context.Context, phase string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.admin+"/debug/pprof/profile?seconds=2", nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	f, err := os.Create(filepath.Join(*profile, strings.ReplaceAll(s.layout.name, " ", "-")+"-"+phase+".pprof"))
	if err != nil {
		return err
	}
	_, err = io.Copy(f, answer.Body)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
