"""What psycopg 3 does for programs: prints one line a step. A run directly and one through a mirror have to print the same.

Usage: scenario.py CONNINFO
"""
import asyncio
import datetime
import decimal
import sys
import threading

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

CONNINFO = sys.argv[1]


def show(name, *values):
    print(name, *[repr(v) for v in values], sep="\t", flush=True)


def failing(name, call):
    try:
        show(name, call())
    except psycopg.Error as e:
        show(name, type(e).__name__, e.sqlstate, e.diag.message_primary, e.diag.message_detail)


def types(conn):
    values = (1, 2**40, 1.5, decimal.Decimal("12.340"), "text ü \u20ac", b"\x00\xff", True, None, datetime.date(2024, 2, 29),
              datetime.timedelta(seconds=3), [1, 2, None], {"a": [1]}.__repr__())
    for binary in (False, True):
        cur = conn.cursor(binary=binary)
        cur.execute("SELECT " + ", ".join(["%s"] * len(values)), values)
        show("types", binary, cur.fetchall(), [d.type_code for d in cur.description])


def statements(conn):
    conn.execute("CREATE TABLE py (id int PRIMARY KEY, name text UNIQUE, n numeric)")
    for i in range(20):  # prepared by name from the sixth time on
        conn.execute("INSERT INTO py VALUES (%s, %s, %s)", (i, f"name {i}", i * 10))
    for i in range(20):
        show("select", conn.execute("SELECT name, n FROM py WHERE id = %s", (i,)).fetchone())
    conn.cursor().executemany("UPDATE py SET n = n + %s WHERE id = %s", [(i, i) for i in range(20)])
    returned = conn.cursor()
    returned.executemany("INSERT INTO py VALUES (%s, %s, 0) RETURNING id", [(100 + i, f"many {i}") for i in range(5)], returning=True)
    show("executemany", returned.fetchall())
    failing("unique", lambda: conn.execute("INSERT INTO py VALUES (1, 'x', 1)"))
    failing("syntax", lambda: conn.execute("SELEC 1"))
    failing("division", lambda: conn.execute("SELECT 1/0", prepare=True))
    show("empty", conn.execute("").statusmessage)
    several = conn.execute("SELECT 1; SELECT 2, 3; UPDATE py SET n = 0 WHERE id = 3")
    show("several", several.fetchall(), several.nextset(), several.fetchall(), several.nextset(), several.statusmessage)


def transactions(conn):
    conn.autocommit = False
    try:
        with conn.transaction():
            conn.execute("UPDATE py SET n = 1 WHERE id = 1")
            try:
                with conn.transaction():
                    conn.execute("DELETE FROM py")
                    conn.execute("INSERT INTO py VALUES (1, 'a', 1), (1, 'b', 1)")
            except psycopg.errors.UniqueViolation as e:
                show("savepoint", e.sqlstate, conn.info.transaction_status.name)
            conn.execute("UPDATE py SET n = 2 WHERE id = 2")
    finally:
        conn.commit()
    conn.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE")
    show("deferrable", conn.execute("SELECT count(*), sum(n) FROM py").fetchone())
    conn.rollback()
    conn.tpc_begin(conn.xid(1, "global", "branch"))
    conn.execute("UPDATE py SET n = 3 WHERE id = 3")
    conn.tpc_prepare()
    conn.tpc_rollback()
    conn.tpc_begin("second")
    conn.execute("UPDATE py SET n = 4 WHERE id = 4")
    conn.tpc_prepare()
    conn.tpc_commit()
    conn.autocommit = True
    show("two-phase", conn.execute("SELECT id, n FROM py WHERE id < 6 ORDER BY id").fetchall())


def pipelines(conn):
    with conn.pipeline() as p:
        cur = [conn.execute("INSERT INTO py VALUES (%s, %s, 1) RETURNING id", (200 + i, f"piped {i}")) for i in range(10)]
        p.sync()
        show("pipeline", [c.fetchone() for c in cur])
    try:
        with conn.pipeline() as p:
            conn.execute("INSERT INTO py VALUES (300, 'before', 1)")
            conn.execute("SELECT 1/0")
            conn.execute("INSERT INTO py VALUES (301, 'after', 1)")
    except psycopg.Error as e:
        show("aborted", e.sqlstate)
    with conn.pipeline() as p, conn.transaction():
        conn.execute("SELECT 1")
        conn.execute("UPDATE py SET n = 7 WHERE id = 7")
    # One piece that begins a transaction and reads.
    conn.autocommit = False
    with conn.pipeline() as p:
        got = conn.execute("SELECT n FROM py WHERE id = 7")
        p.sync()
        conn.execute("UPDATE py SET n = 8 WHERE id = 8")
        p.sync()
        show("reads first", got.fetchall(), conn.info.transaction_status.name)
    conn.rollback()
    conn.autocommit = True
    show("after", conn.execute("SELECT id, n FROM py WHERE id IN (7, 8, 300, 301) ORDER BY id").fetchall())


def copies(conn):
    cur = conn.cursor()
    for binary in ("", " (FORMAT binary)"):
        cur.execute("CREATE TEMP TABLE IF NOT EXISTS held (a int4, b text)")
        with cur.copy("COPY held FROM STDIN" + binary) as copy:
            if binary:
                copy.set_types(["int4", "text"])
            for i in range(3000):
                copy.write_row((i, "row\t" + "x" * (i % 50)))
        with cur.copy("COPY (SELECT * FROM held ORDER BY a, b) TO STDOUT" + binary) as copy:
            show("copied", sum(len(b) for b in copy))
    try:
        with cur.copy("COPY py FROM STDIN") as copy:
            copy.write_row((400, "new", 1))
            copy.write_row((0, "taken", 1))
    except psycopg.Error as e:
        show("refused", e.sqlstate, e.diag.message_detail, e.diag.context)
    try:
        with cur.copy("COPY py FROM STDIN") as copy:
            copy.write_row((401, "given up", 1))
            raise ValueError
    except ValueError:
        show("given up", cur.execute("SELECT count(*) FROM py WHERE id >= 400").fetchone())
    try:
        with cur.copy("COPY (SELECT i, 1/(i - 5000) FROM generate_series(1, 9000) AS i) TO STDOUT") as copy:
            show("failing", sum(len(b) for b in copy))
    except psycopg.Error as e:
        show("failing", e.sqlstate)


def cursors(conn):
    with conn.transaction():
        named = conn.cursor("named", row_factory=dict_row, scrollable=True)
        named.execute("SELECT id, name FROM py ORDER BY id")
        show("named", named.fetchmany(3), named.fetchmany(2))
        named.scroll(-2)
        show("scrolled", named.fetchone())
        named.close()
    with conn.cursor("held", withhold=True) as held:
        held.itersize = 7
        held.execute("SELECT id FROM py ORDER BY id")
        show("held", [row[0] for row in held])
    streamed = conn.cursor()
    show("streamed", sum(row[0] for row in streamed.stream("SELECT i FROM generate_series(1, 5000) AS i")))
    show("chunks", sum(row[0] for row in streamed.stream("SELECT i FROM generate_series(1, 5000) AS i", size=100)))


def notifications(conn):
    conn.execute("LISTEN channel")
    other = psycopg.connect(CONNINFO, autocommit=True)
    other.execute("NOTIFY channel, 'first'")
    other.execute("SELECT pg_notify('channel', 'second')")
    show("notified", [(n.channel, n.payload) for n in conn.notifies(timeout=20, stop_after=2)])
    other.close()
    notices = []
    conn.add_notice_handler(lambda d: notices.append((d.severity, d.message_primary)))
    conn.execute("DO $$ BEGIN RAISE NOTICE 'one'; RAISE WARNING 'two'; END $$")
    show("notices", notices)


def cancelled(conn):
    # A statement that waits for ever; it is cancelled until the server has heard it.
    over = threading.Event()

    def stop():
        while not over.wait(0.05):
            conn.cancel_safe()

    canceller = threading.Thread(target=stop)
    canceller.start()
    failing("cancelled", lambda: conn.execute("SELECT pg_sleep(600)"))
    over.set()
    canceller.join()
    failing("goes on", lambda: conn.execute("SELECT 1").fetchone())


def settings(conn):
    conn.execute("SET search_path TO 'elsewhere', public; SET timezone TO 'Asia/Tokyo'")
    show("parameters", conn.info.parameter_status("TimeZone"), conn.info.parameter_status("application_name"), conn.info.encoding)
    show("zone", conn.execute("SELECT '2024-01-01 00:00+00'::timestamptz::text").fetchone())
    conn.execute("SET client_encoding TO latin1")
    show("latin1", conn.execute("SELECT 'ä'").fetchone())
    conn.execute("DISCARD ALL")
    show("quoted", conn.execute(sql.SQL("SELECT {} AS {}").format("a'b\\", sql.Identifier('c"d'))).fetchone())


async def concurrent():
    async def one(i):
        conn = await psycopg.AsyncConnection.connect(CONNINFO, autocommit=True)
        async with conn:
            for _ in range(10):
                await conn.execute("INSERT INTO shared VALUES (%s, 1) ON CONFLICT (id) DO UPDATE SET n = shared.n + 1", (i % 3,))

    await asyncio.gather(*[one(i) for i in range(9)])


def main():
    with psycopg.connect(CONNINFO, autocommit=True, application_name="psycopg's") as conn:
        for step in (types, statements, transactions, pipelines, copies, cursors, notifications, cancelled, settings):
            step(conn)
        conn.execute("CREATE TABLE shared (id int PRIMARY KEY, n int)")
        asyncio.run(concurrent())
        show("concurrent", conn.execute("SELECT * FROM shared ORDER BY 1").fetchall())
    with psycopg.connect(CONNINFO, autocommit=False) as conn:
        conn.execute("UPDATE py SET n = 0")  # committed by the end of the with
    conn = psycopg.connect(CONNINFO)
    conn.execute("DELETE FROM py")
    conn.close()  # rolled back


main()
