package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/test/rig"
)

// accountsOfClient is the number of rows for each client, which no other client reads or changes.
const accountsOfClient = 2500

var postgresSide = &side{
	name:  "postgres",
	load:  "prepared SELECT and UPDATE of one of 10,000 rows by its key, in turns",
	flags: []string{"--data-check", "off"},
	start: startPostgres,
	url:   postgresURL,
	work:  workPostgres,
}

func postgresURL(addr string) string { return "postgres://postgres@" + addr + "/postgres" }

// startPostgres starts a server that holds the accounts.
func startPostgres(work string, _ bool) (*rig.Process, error) {
	p, err := rig.Postgres(work)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	c, err := pgx.Connect(ctx, postgresURL(p.Addr))
	if err != nil {
		p.Stop()
		return nil, err
	}
	defer c.Close(ctx)
	for _, text := range []string{
		"CREATE TABLE accounts (id int PRIMARY KEY, balance int NOT NULL, filler char(84) NOT NULL)",
		fmt.Sprintf("INSERT INTO accounts SELECT i, 0, '' FROM generate_series(0, %d) i", clients*accountsOfClient-1),
		"VACUUM ANALYZE accounts",
	} {
		if _, err := c.Exec(ctx, text); err != nil {
			p.Stop()
			return nil, err
		}
	}
	return p, nil
}

func workPostgres(addr string, client int, until time.Time, took func(time.Duration)) error {
	ctx := context.Background()
	c, err := pgx.Connect(ctx, postgresURL(addr))
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	for n := 0; time.Now().Before(until); n++ {
		id := client*accountsOfClient + n%accountsOfClient
		began := time.Now()
		if n%2 == 0 {
			_, err = c.Exec(ctx, "UPDATE accounts SET balance = balance + $1 WHERE id = $2", n, id)
		} else {
			var balance int
			err = c.QueryRow(ctx, "SELECT balance FROM accounts WHERE id = $1", id).Scan(&balance)
		}
		if err != nil {
			return err
		}
		took(time.Since(began))
	}
	return nil
}
