package io.github.cinchlayer;

import io.github.cinchlayer.EnvelopeException.DictionaryUnavailable;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/**
 * Seals values as the gateways in front of a Redis server do, and opens what they or other libraries sealed.
 *
 * <pre>{@code
 * Cinch cinch = Cinch.of(new JedisCommands(jedis));
 * jedis.set(key, cinch.seal(key, value));
 * byte[] value = cinch.open(jedis.get(key));
 * }</pre>
 *
 * One serves a server, for all threads of a process. What gateways have agreed on is asked for every half a minute by a thread of its own.
 */
public final class Cinch implements AutoCloseable {
  private static final Logger LOG = System.getLogger("cinch");
  private static final Duration REFRESH = Duration.ofSeconds(30);
  private static final long LEASE_NANOS = Duration.ofMinutes(2).toNanos(); // how long a dictionary may be named after it was seen
  private static final int MAX_DICTIONARIES = 256; // kept at a time

  private final Commands commands;
  private final Store store;
  private final String login;
  private final String space;
  private final int maxRaw;
  private final Duration refresh;
  private final LongSupplier nanos;
  private final Map<Integer, Dictionary> dictionaries = new Newest();
  private final ScheduledExecutorService refresher = Executors.newSingleThreadScheduledExecutor(Cinch::daemon);
  private volatile Agreed agreed = new Agreed(Policy.none(), 0);

  /** What gateways have agreed on, and when the store was asked for it. */
  private static final class Agreed {
    final Policy policy;
    final long at;

    Agreed(Policy policy, long at) {
      this.policy = policy;
      this.at = at;
    }
  }

  private static final class Newest extends LinkedHashMap<Integer, Dictionary> {
    private static final long serialVersionUID = 1;

    @Override
    protected boolean removeEldestEntry(Map.Entry<Integer, Dictionary> eldest) {
      return size() > MAX_DICTIONARIES;
    }
  }

  /** How a Cinch differs from the usual one. */
  public static final class Builder {
    private final Commands commands;
    private String login = "";
    private int database;
    private int maxRaw = Envelope.DEFAULT_MAX_RAW;
    private Duration refresh = REFRESH;
    private LongSupplier nanos = System::nanoTime;

    private Builder(Commands commands) {
      this.commands = commands;
    }

    /** The user that the application logs in as, who may have dictionaries of its own. */
    public Builder user(String name) {
      login = name == null || name.equals("default") ? "" : name;
      return this;
    }

    /** The database that the application's values are in, if it is not 0. */
    public Builder database(int number) {
      database = number;
      return this;
    }

    /** The longest value that is opened or sealed, 32 MiB by default. */
    public Builder maxRaw(int bytes) {
      maxRaw = bytes;
      return this;
    }

    /** How often gateways' policy is asked for. */
    public Builder refresh(Duration interval) {
      refresh = interval;
      return this;
    }

    Builder clock(LongSupplier nanos) {
      this.nanos = nanos;
      return this;
    }

    /** Reads the policy for the first time, so that the first value is sealed by it. */
    public Cinch build() {
      return new Cinch(this);
    }
  }

  /** The usual one, for the server's default user and database 0. It closes the commands when it is closed. */
  public static Cinch of(Commands commands) {
    return builder(commands).build();
  }

  public static Builder builder(Commands commands) {
    return new Builder(commands);
  }

  private Cinch(Builder b) {
    commands = b.commands;
    store = new Store(commands);
    login = b.login;
    space = Integer.toString(b.database);
    maxRaw = b.maxRaw;
    refresh = b.refresh;
    nanos = b.nanos;
    refresh();
    refresher.scheduleWithFixedDelay(this::refresh, refresh.toNanos(), refresh.toNanos(), TimeUnit.NANOSECONDS);
  }

  private static Thread daemon(Runnable work) {
    Thread thread = new Thread(work, "cinch policy");
    thread.setDaemon(true);
    return thread;
  }

  /** Where the store does not answer the old policy holds, for as long as it may: writing goes on, with plain values in the end. */
  private void refresh() {
    try {
      long asked = nanos.getAsLong();
      Policy policy = policy();
      policy.inForce().forEach(this::dictionary);
      agreed = new Agreed(policy, asked);
    } catch (RuntimeException e) {
      LOG.log(Level.WARNING, "cinch: the policy can''t be read, next try in {0} s: {1}", refresh.toSeconds(), e);
    }
  }

  private Policy policy() {
    synchronized (commands) {
      return store.policy(login);
    }
  }

  /** What to store for the value of a string's key: its envelope, or the value where the policy or its content says so. */
  public byte[] seal(byte[] key, byte[] value) {
    return seal(Address.string(key), value);
  }

  /** What to store for a value. */
  public byte[] seal(Address address, byte[] value) {
    Agreed now = agreed;
    if (now.policy.excludes(address.key)) {
      return value;
    }
    Rule rule = now.policy.sealing(space, address, value);
    if (rule == null) {
      return Envelope.escape(value);
    }
    Dictionary dictionary = nanos.getAsLong() - now.at < LEASE_NANOS ? known(now.policy.dictionary(rule)) : null;
    return Envelope.seal(value, rule.level, dictionary, (raw, sealed) -> rule.worth(address.kind, raw, sealed), maxRaw);
  }

  /**
   * The value that the stored bytes stand for; plain ones, and null, come back as they are. The store is asked for a dictionary that was
   * not needed before.
   *
   * @throws EnvelopeException if they can't be opened
   */
  public byte[] open(byte[] stored) {
    return stored == null ? null : Envelope.open(stored, this::dictionary, maxRaw);
  }

  private Dictionary known(int number) {
    synchronized (dictionaries) {
      return dictionaries.get(number);
    }
  }

  private Dictionary dictionary(int number) {
    Dictionary dictionary = known(number);
    return dictionary != null ? dictionary : fetch(number);
  }

  /** One thread at a time asks, and others find what it found. */
  private Dictionary fetch(int number) {
    synchronized (commands) {
      Dictionary dictionary = known(number);
      return dictionary != null ? dictionary : keep(ask(number));
    }
  }

  private Dictionary ask(int number) {
    try {
      return store.dictionary(number);
    } catch (EnvelopeException e) {
      throw e;
    } catch (RuntimeException e) {
      throw new DictionaryUnavailable(number, e);
    }
  }

  private Dictionary keep(Dictionary dictionary) {
    synchronized (dictionaries) {
      dictionaries.put(dictionary.number(), dictionary);
      return dictionary;
    }
  }

  @Override
  public void close() {
    refresher.shutdownNow();
    commands.close();
  }
}
