package io.github.cinchlayer.lettuce;

import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.output.CommandOutput;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;

/** Any answer: null, byte[], numbers, and lists of those. A map becomes the list of its names and values. */
final class Answer extends CommandOutput<byte[], byte[], Object> {
  private final Deque<Unfinished> lists = new ArrayDeque<>();

  private static final class Unfinished {
    final List<Object> elements = new ArrayList<>();
    final int count;

    Unfinished(int count) {
      this.count = count;
    }
  }

  Answer() {
    super(ByteArrayCodec.INSTANCE, null);
  }

  private void take(Object one) {
    if (lists.isEmpty()) {
      output = one;
    } else {
      lists.peek().elements.add(one);
    }
    while (!lists.isEmpty() && lists.peek().elements.size() == lists.peek().count) {
      Object list = lists.pop().elements;
      take(list);
    }
  }

  @Override
  public void set(ByteBuffer bytes) {
    take(bytes == null ? null : codec.decodeValue(bytes));
  }

  @Override
  public void set(long number) {
    take(number);
  }

  @Override
  public void multi(int count) {
    if (count > 0) {
      lists.push(new Unfinished(count));
    } else {
      take(List.of());
    }
  }

  @Override
  public void multiMap(int count) {
    multi(2 * count);
  }
}
