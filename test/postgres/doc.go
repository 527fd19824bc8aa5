// Package postgres proves with programs of others that cinch shadow --postgres is transparent and mirrors what they do: drivers of
// several languages, psql and pgbench, PostgreSQL's own regression, isolation and pipeline tests, and PgBouncer on either side. What a
// program prints has to be the same directly and through the mirror, and the targets have to agree.
//
// test/postgres/regress runs PostgreSQL's own tests, whose source is not part of this repository; test/postgres/suites those of drivers.
package postgres
