import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;

/**
 * Runs several cases of grpc-java's interoperability client in one virtual machine, because
 * its own main runs one and starting costs more than the case. Arguments: the cases with
 * commas between them, and then that client's own. Prints a line for each case.
 */
public final class Cases {
  private static final String CLIENT = "io.grpc.testing.integration.TestServiceClient";

  public static void main(String[] args) throws Exception {
    boolean failed = false;
    for (String name : args[0].split(",")) {
      String[] own = Arrays.copyOfRange(args, 1, args.length + 1);
      own[own.length - 1] = "--test_case=" + name;
      try {
        runCase(own);
        System.out.println("ok " + name);
      } catch (InvocationTargetException e) {
        failed = true;
        System.out.println("FAILED " + name + ": " + e.getCause());
        e.getCause().printStackTrace();
      }
    }
    System.exit(failed ? 1 : 0);
  }

  private static void runCase(String[] args) throws Exception {
    Class<?> type = Class.forName(CLIENT);
    Object client = type.getConstructor().newInstance();
    method(type, "parseArgs", String[].class).invoke(client, (Object) args);
    method(type, "setUp").invoke(client);
    try {
      method(type, "run").invoke(client);
    } finally {
      method(type, "tearDown").invoke(client);
    }
  }

  private static Method method(Class<?> type, String name, Class<?>... parameters) throws Exception {
    Method m = type.getDeclaredMethod(name, parameters);
    m.setAccessible(true);
    return m;
  }
}
