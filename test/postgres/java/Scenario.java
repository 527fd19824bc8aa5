import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;

/**
 * What JDBC does for programs: prints one line a step. A run directly and one through a mirror have to print the same.
 *
 * <p>Usage: Scenario URL
 */
public final class Scenario {
  private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
  private static String url;

  private Scenario() {}

  private interface Step {
    Object run() throws Exception;
  }

  public static void main(String[] args) throws Exception {
    url = args[0];
    try (Connection c = connect("simple")) {
      execute(c, "CREATE TABLE java (id int PRIMARY KEY, name text UNIQUE, n numeric)");
      execute(c, "CREATE FUNCTION twice(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 2'");
    }
    for (String mode : List.of("extended", "simple", "extendedForPrepared", "extendedCacheEverything")) {
      OUT.println(mode);
      try (Connection c = connect(mode)) {
        execute(c, "TRUNCATE java");
        statements(c);
        batches(c);
        transactions(c);
        cursors(c);
        copies(c);
        notifications(c);
        cancelled(c);
      }
    }
    try (Connection c = connect("extended", "autosave", "always")) {
      autosave(c);
    }
  }

  private static Connection connect(String mode, String... more) throws SQLException {
    Properties p = new Properties();
    p.setProperty("user", "postgres");
    p.setProperty("preferQueryMode", mode);
    p.setProperty("reWriteBatchedInserts", String.valueOf(mode.equals("extendedForPrepared")));
    p.setProperty("prepareThreshold", "3");
    p.setProperty("ApplicationName", "java's");
    for (int i = 0; i < more.length; i += 2) {
      p.setProperty(more[i], more[i + 1]);
    }
    return DriverManager.getConnection(url, p);
  }

  private static void show(String name, Object... values) {
    OUT.println(name + "\t" + Arrays.deepToString(values));
  }

  private static void failing(String name, Step step) throws Exception {
    try {
      show(name, step.run());
    } catch (SQLException e) {
      show(name, e.getSQLState(), e.getMessage());
    }
  }

  private static boolean execute(Connection c, String sql) throws SQLException {
    try (Statement s = c.createStatement()) {
      return s.execute(sql);
    }
  }

  private static List<String> rows(ResultSet r) throws SQLException {
    List<String> out = new ArrayList<>();
    ResultSetMetaData m = r.getMetaData();
    while (r.next()) {
      StringBuilder b = new StringBuilder();
      for (int i = 1; i <= m.getColumnCount(); i++) {
        b.append(m.getColumnTypeName(i)).append('=').append(r.getString(i)).append(' ');
      }
      out.add(b.toString().trim());
    }
    return out;
  }

  private static List<String> query(Connection c, String sql) throws SQLException {
    try (Statement s = c.createStatement(); ResultSet r = s.executeQuery(sql)) {
      return rows(r);
    }
  }

  private static void statements(Connection c) throws Exception {
    try (PreparedStatement insert = c.prepareStatement("INSERT INTO java VALUES (?, ?, ?)", Statement.RETURN_GENERATED_KEYS);
        PreparedStatement get = c.prepareStatement("SELECT * FROM java WHERE id = ? AND n >= ?")) {
      for (int i = 0; i < 20; i++) { // prepared at the server from the third on
        insert.setInt(1, i);
        insert.setString(2, "name " + i + " ü");
        insert.setBigDecimal(3, new java.math.BigDecimal(i * 10));
        insert.executeUpdate();
        show("key", rows(insert.getGeneratedKeys()));
        get.setInt(1, i);
        get.setLong(2, 0);
        show("row", rows(get.executeQuery()));
      }
    }
    failing("unique", () -> execute(c, "INSERT INTO java VALUES (1, 'x', 1)"));
    failing("syntax", () -> execute(c, "SELEC 1"));
    failing("empty", () -> execute(c, ""));
    try (Statement s = c.createStatement()) {
      boolean more = s.execute("SELECT 1; UPDATE java SET n = 1 WHERE id = 1; SELECT 2");
      show("several", more, rows(s.getResultSet()), s.getMoreResults(), s.getUpdateCount(), s.getMoreResults(), rows(s.getResultSet()));
    }
    try (PreparedStatement f = c.prepareStatement("SELECT twice(?)")) {
      f.setInt(1, 21);
      show("function", rows(f.executeQuery()));
    }
    show("metadata", rows(c.getMetaData().getColumns(null, "public", "java", null)).size());
  }

  private static void batches(Connection c) throws Exception {
    try (PreparedStatement s = c.prepareStatement("INSERT INTO java VALUES (?, ?, 0)")) {
      for (int i = 0; i < 300; i++) {
        s.setInt(1, 1000 + i);
        s.setString(2, "batch " + i);
        s.addBatch();
      }
      show("batch", s.executeBatch().length);
      for (int i : new int[] {2000, 1000, 2001}) {
        s.setInt(1, i);
        s.setString(2, "again " + i);
        s.addBatch();
      }
      try {
        show("refused", s.executeBatch());
      } catch (BatchUpdateException e) {
        show("refused", e.getSQLState());
      }
    }
    show("rows", query(c, "SELECT count(*), sum(id) FROM java"));
  }

  private static void transactions(Connection c) throws Exception {
    c.setAutoCommit(false);
    query(c, "SELECT * FROM java WHERE id = 1"); // BEGIN comes with it
    execute(c, "UPDATE java SET n = 2 WHERE id = 2");
    Savepoint s = c.setSavepoint();
    failing("in a transaction", () -> execute(c, "INSERT INTO java VALUES (2, 'x', 1)"));
    failing("aborted", () -> query(c, "SELECT 1"));
    c.rollback(s);
    execute(c, "UPDATE java SET n = 3 WHERE id = 3");
    c.commit();
    execute(c, "DELETE FROM java");
    c.rollback();
    c.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
    c.setReadOnly(true);
    failing("read only", () -> execute(c, "DELETE FROM java"));
    c.rollback();
    c.setReadOnly(false);
    c.setAutoCommit(true);
    show("committed", query(c, "SELECT id, n FROM java WHERE id IN (2, 3) ORDER BY id"));
  }

  private static void cursors(Connection c) throws Exception {
    c.setAutoCommit(false);
    try (PreparedStatement s = c.prepareStatement("SELECT id FROM java ORDER BY id")) {
      for (int run = 0; run < 5; run++) {
        s.setFetchSize(50);
        int n = 0;
        long sum = 0;
        try (ResultSet r = s.executeQuery()) {
          while (r.next() && n < 120 + run * 100) {
            n++;
            sum += r.getLong(1);
          }
        }
        show("fetched", n, sum);
      }
    }
    try (Statement s = c.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE)) {
      ResultSet r = s.executeQuery("SELECT id, n FROM java WHERE id < 5 ORDER BY id");
      r.absolute(3);
      r.updateBigDecimal(2, java.math.BigDecimal.TEN);
      r.updateRow();
      r.last();
      show("scrolled", r.getInt(1));
    }
    c.commit();
    c.setAutoCommit(true);
  }

  private static void copies(Connection c) throws Exception {
    var manager = c.unwrap(PGConnection.class).getCopyAPI();
    execute(c, "CREATE TEMP TABLE copied (a int, b text)");
    StringBuilder b = new StringBuilder();
    for (int i = 0; i < 5000; i++) {
      b.append(i).append("\trow ").append("x".repeat(i % 40)).append('\n');
    }
    show("copied", manager.copyIn("COPY copied FROM STDIN", new ByteArrayInputStream(b.toString().getBytes(StandardCharsets.UTF_8))));
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    show("out", manager.copyOut("COPY (SELECT * FROM copied ORDER BY a) TO STDOUT (FORMAT csv)", out), out.size());
    failing("refused", () -> manager.copyIn("COPY copied FROM STDIN", new ByteArrayInputStream("1\tgood\nbad\tbad\n".getBytes(StandardCharsets.UTF_8))));
    var in = manager.copyIn("COPY copied FROM STDIN");
    in.writeToCopy("7\tgiven up\n".getBytes(StandardCharsets.UTF_8), 0, 11);
    in.cancelCopy();
    show("rows", query(c, "SELECT count(*) FROM copied"));
  }

  private static void notifications(Connection c) throws Exception {
    execute(c, "LISTEN java");
    try (Connection other = connect("extended")) {
      execute(other, "NOTIFY java, 'first'");
      execute(other, "NOTIFY java, 'second'");
    }
    List<String> heard = new ArrayList<>();
    while (heard.size() < 2) {
      for (PGNotification n : c.unwrap(PGConnection.class).getNotifications(0)) {
        heard.add(n.getName() + " " + n.getParameter());
      }
    }
    show("notified", heard);
    try (Statement s = c.createStatement()) {
      s.execute("DO $$ BEGIN RAISE NOTICE 'one'; RAISE WARNING 'two'; END $$");
      show("notices", s.getWarnings().getMessage(), s.getWarnings().getNextWarning().getMessage());
    }
  }

  private static void cancelled(Connection c) throws Exception {
    try (Statement s = c.createStatement()) {
      s.setQueryTimeout(1); // the driver sends a cancellation
      failing("cancelled", () -> s.execute("SELECT pg_sleep(600)"));
    }
    show("goes on", query(c, "SELECT 1"));
  }

  private static void autosave(Connection c) throws Exception {
    c.setAutoCommit(false);
    execute(c, "UPDATE java SET n = 5 WHERE id = 5");
    failing("saved", () -> execute(c, "INSERT INTO java VALUES (5, 'x', 1)"));
    execute(c, "UPDATE java SET n = 6 WHERE id = 6");
    c.commit();
    c.setAutoCommit(true);
    show("after", query(c, "SELECT id, n FROM java WHERE id IN (5, 6) ORDER BY id"));
  }
}
