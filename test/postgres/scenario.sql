-- What people do in psql: everything goes by the simple protocol, some of it in one message.
CREATE TABLE numbers (n int PRIMARY KEY, word text);
COPY numbers FROM STDIN;
1	one
2	two
3	three
\.
\copy numbers TO STDOUT (FORMAT csv, HEADER)
SELECT * FROM numbers ORDER BY n \gdesc
SELECT n, word FROM numbers WHERE n > 1 ORDER BY n;
INSERT INTO numbers VALUES (4, 'four')\; SELECT count(*) FROM numbers\; SELECT 1/0\; INSERT INTO numbers VALUES (5, 'five');
BEGIN\; SELECT n FROM numbers WHERE n = 1;
UPDATE numbers SET word = 'eins' WHERE n = 1;
ROLLBACK;
SET search_path TO public\; SELECT count(*) FROM numbers;
SHOW search_path;
-- Two COPYs and a query between them, in one message.
CREATE TABLE copied (a int, b text);
COPY copied FROM STDIN\; SELECT count(*) FROM copied\; COPY copied FROM STDIN;
1	first
2	first
\.
3	second
\.
COPY copied TO STDOUT\; COPY numbers TO STDOUT;
COPY copied FROM STDIN;
4	good
no number	bad
\.
COPY copied FROM STDIN (FORMAT csv, DELIMITER ';');
5;semicolon
\.
SELECT count(*), sum(a) FROM copied;
;
/* nothing */;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT n FROM numbers ORDER BY n;
FETCH 2 FROM c;
MOVE BACKWARD ALL FROM c;
FETCH ALL FROM c;
SAVEPOINT s;
INSERT INTO numbers VALUES (1, 'again');
SELECT 'never';
ROLLBACK TO s;
INSERT INTO numbers VALUES (6, 'six') RETURNING *;
COMMIT;
PREPARE find (int) AS SELECT word FROM numbers WHERE n = $1;
EXECUTE find(2);
EXECUTE find(NULL);
DEALLOCATE find;
EXECUTE find(2);
LISTEN heard;
NOTIFY heard;
SELECT 1 AS after_the_notification;
DO $$ BEGIN RAISE NOTICE 'said'; INSERT INTO numbers VALUES (7, 'seven'); END $$;
BEGIN;
DELETE FROM numbers WHERE n = 7;
PREPARE TRANSACTION 'prepared';
COMMIT PREPARED 'prepared';
CREATE FUNCTION raises() RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'P0099', HINT = 'try not'; END $$;
SELECT raises();
\set VERBOSITY verbose
SELECT n / 0 FROM numbers;
\set VERBOSITY default
CREATE PROCEDURE commits() LANGUAGE plpgsql AS $$ BEGIN FOR i IN 10..14 LOOP INSERT INTO numbers VALUES (i, 'by a procedure'); COMMIT; END LOOP; END $$;
CALL commits();
SELECT count(*) FROM numbers;
\set FETCH_COUNT 2
SELECT n FROM numbers ORDER BY n;
\set FETCH_COUNT 0
\set AUTOCOMMIT off
UPDATE numbers SET word = upper(word) WHERE n = 2;
COMMIT;
\set AUTOCOMMIT on
CREATE TEMP TABLE held AS SELECT i FROM generate_series(1, 10) AS i;
SELECT sum(i) FROM held;
TRUNCATE held;
VACUUM numbers;
CREATE INDEX CONCURRENTLY ON numbers (word);
DROP TABLE held;
SELECT * FROM numbers ORDER BY n LIMIT 3;
SELECT repeat('long', 300000) \g /dev/null
SELECT length(string_agg(repeat('x', 1000), '')) FROM generate_series(1, 3000);
