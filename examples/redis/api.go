package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/rig/menus"
)

const apiRole = "api"

// serveAPI is the application: it answers GET /menu/N from the cache at args[0]. It prints its address, and
// ends at the end of its input.
func serveAPI(args []string) error {
	cache := redis.NewClient(&redis.Options{Addr: args[0], Protocol: 2, DisableIdentity: true, PoolSize: 64, MaxRetries: -1})
	defer cache.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /menu/{number}", func(w http.ResponseWriter, r *http.Request) {
		menu, err := read(r.Context(), cache, r.PathValue("number"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(menu)))
		_, _ = w.Write(menu)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = server.Close()
	}()
	fmt.Println(l.Addr())
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// read returns a menu from the cache. If it is missing, read makes it, as a database would, and stores it in
// the cache.
func read(ctx context.Context, cache *redis.Client, number string) ([]byte, error) {
	n, err := strconv.Atoi(number)
	if err != nil {
		return nil, err
	}
	key := "menu:" + number
	menu, err := cache.Get(ctx, key).Bytes()
	if !errors.Is(err, redis.Nil) {
		return menu, err
	}
	menu = menus.Menu(n)
	return menu, cache.Set(ctx, key, menu, 0).Err()
}

// firstLine reads the first line that a program prints: its address.
func firstLine(r io.Reader) (string, error) {
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("the program ended before it printed its address: %w", err)
	}
	return line[:len(line)-1], nil
}
