// Package postgres checks with programs of other projects that cinch shadow --postgres is transparent and
// mirrors their statements: drivers of several languages, psql and pgbench, PostgreSQL's own regression,
// isolation and pipeline tests, and PgBouncer on either side. A program must print the same directly and
// through the mirror, and the targets must agree.
//
// test/postgres/regress runs PostgreSQL's own tests, whose source is not part of this repository;
// test/postgres/suites runs those of drivers.
package postgres
