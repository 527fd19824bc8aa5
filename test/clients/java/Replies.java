import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.Collectors;
import redis.clients.jedis.util.KeyValue;

/** Prints replies byte for byte. */
final class Replies {
  private Replies() {}

  static String show(Object x) {
    if (x == null) {
      return "nil";
    } else if (x instanceof Exception e) {
      return "!" + e.getClass().getSimpleName() + " " + e.getMessage();
    } else if (x instanceof byte[] bytes) {
      return showBytes(bytes);
    } else if (x instanceof String s) {
      return showBytes(s.getBytes(StandardCharsets.UTF_8));
    } else if (x instanceof KeyValue<?, ?> pair) {
      return show(pair.getKey()) + "=>" + show(pair.getValue());
    } else if (x instanceof List<?> list) {
      return "[" + list.stream().map(Replies::show).collect(Collectors.joining(", ")) + "]";
    }
    return x.getClass().getSimpleName() + ":" + x;
  }

  private static String showBytes(byte[] b) {
    boolean printable = true;
    for (byte c : b) {
      printable &= c >= 0x20 && c < 0x7f;
    }
    if (b.length <= 48 && printable) {
      return '"' + new String(b, StandardCharsets.US_ASCII) + '"';
    } else if (b.length <= 24) {
      return "hex:" + HexFormat.of().formatHex(b);
    }
    try {
      byte[] sum = MessageDigest.getInstance("SHA-256").digest(b);
      return "sha256:" + HexFormat.of().formatHex(sum) + "/" + b.length;
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Prints a reply in the way that a step asks for. */
  static String normalise(String norm, Object x) {
    if (x instanceof Exception) {
      return show(x);
    }
    return switch (norm) {
      case "" -> show(x);
      case "type" -> x == null ? "nil" : x.getClass().getSimpleName();
      case "sign" -> x instanceof Long n && n > 0 ? "positive" : show(x);
      case "count" -> "count " + ((List<?>) x).size();
      case "sort" -> sorted((List<?>) x);
      case "pairs" -> pairs((List<?>) x);
      case "scan" -> sorted((List<?>) ((List<?>) x).get(1));
      case "scanpairs" -> pairs((List<?>) ((List<?>) x).get(1));
      default -> throw new IllegalArgumentException("unknown norm: " + norm);
    };
  }

  private static String sorted(List<?> list) {
    return "[" + list.stream().map(Replies::show).sorted().collect(Collectors.joining(", ")) + "]";
  }

  /** A map, a list of pairs or a flat list, sorted by key. */
  private static String pairs(List<?> list) {
    List<Object> flat = new ArrayList<>();
    for (Object element : list) {
      if (element instanceof KeyValue<?, ?> pair) {
        flat.add(pair.getKey());
        flat.add(pair.getValue());
      } else if (element instanceof List<?> pair) {
        flat.addAll(pair);
      } else {
        flat.add(element);
      }
    }
    List<String> out = new ArrayList<>();
    for (int i = 0; i + 1 < flat.size(); i += 2) {
      out.add(show(flat.get(i)) + "=>" + show(flat.get(i + 1)));
    }
    return "{" + out.stream().sorted().collect(Collectors.joining(", ")) + "}";
  }
}
