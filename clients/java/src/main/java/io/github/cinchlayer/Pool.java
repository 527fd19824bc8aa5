package io.github.cinchlayer;

import java.util.concurrent.ArrayBlockingQueue;
import java.util.function.Function;
import java.util.function.Supplier;

/** Keeps as many of something costly as there are processors. Who finds none makes one. */
final class Pool<T extends AutoCloseable> {
  private final ArrayBlockingQueue<T> idle = new ArrayBlockingQueue<>(Runtime.getRuntime().availableProcessors());
  private final Supplier<T> make;

  Pool(Supplier<T> make) {
    this.make = make;
  }

  <R> R with(Function<T, R> act) {
    T one = idle.poll();
    if (one == null) {
      one = make.get();
    }
    try {
      return act.apply(one);
    } finally {
      if (!idle.offer(one)) {
        close(one);
      }
    }
  }

  private static void close(AutoCloseable one) {
    try {
      one.close();
    } catch (Exception e) {
      throw new IllegalStateException(e);
    }
  }
}
