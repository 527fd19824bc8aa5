package main

import (
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/cinch-layer/cinch/test/rig"
)

// events creates a table typical of applications: some columns and a document.
const events = `
select setseed(0.5);
create table events (id bigserial primary key, at timestamptz not null, account int not null, kind text not null, body jsonb not null);
insert into events (at, account, kind, body)
select timestamptz '2026-01-01' + i * interval '1.3 s', (random() * 250000)::int,
  (array['order.created', 'order.paid', 'payment.failed', 'login', 'page.view', 'cart.add'])[1 + (random() * 5)::int],
  jsonb_build_object('id', gen_random_uuid(), 'source', (array['web', 'ios', 'android', 'partner'])[1 + (random() * 3)::int],
    'user', jsonb_build_object('id', (random() * 250000)::int, 'country', (array['de', 'fr', 'us', 'br', 'jp', 'in'])[1 + (random() * 5)::int],
      'plan', (array['free', 'pro', 'team'])[1 + (random() * 2)::int]),
    'items', (select jsonb_agg(jsonb_build_object('sku', 'SKU-' || (random() * 9999)::int, 'qty', 1 + (random() * 4)::int,
      'price', round((random() * 200)::numeric, 2))) from generate_series(1, 1 + i %% 4) g where g > 0 or i < 0),
    'trace', md5(i::text), 'ua', 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/' || (100 + i %% 30) || '.0 Safari/537.36')
from generate_series(1, %d) i;
create index on events (at);
create index on events (account);
`

// postgres creates a data directory with pgbench's tables, after some transactions, and events.
func (o *options) postgres() error {
	server, err := rig.Postgres(o.work)
	if err != nil {
		return err
	}
	defer server.Stop()
	at := []string{"-h", "127.0.0.1", "-p", server.Port(), "-U", "postgres"}
	for _, step := range [][]string{
		{"pgbench", "-i", "-q", "-s", fmt.Sprint(o.scale)},
		{"psql", "-q", "-v", "ON_ERROR_STOP=1", "-c", fmt.Sprintf(events, o.events)},
		{"pgbench", "-c", "2", "-t", "20000"},
		{"psql", "-q", "-c", "checkpoint"},
	} {
		if out, err := exec.Command(step[0], append(at, append(step[1:], "postgres")...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", step[0], err, out)
		}
	}
	found, err := filepath.Glob(filepath.Join(o.work, "postgres-*", "data"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("find PostgreSQL's data directory: %v %w", found, err)
	}
	o.dir = found[0]
	return nil
}
