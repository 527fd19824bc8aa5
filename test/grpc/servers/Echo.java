import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.ServerBuilder;
import io.grpc.ServerServiceDefinition;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A server of grpc-java for tests: Echo PORT. Messages are bytes as they are. Unary and Both send back what they
 * get; Count says how many messages that were.
 */
public final class Echo {
  private static final AtomicLong count = new AtomicLong();

  private static final class Bytes implements MethodDescriptor.Marshaller<byte[]> {
    @Override public InputStream stream(byte[] message) { return new ByteArrayInputStream(message); }

    @Override public byte[] parse(InputStream in) {
      try {
        return in.readAllBytes();
      } catch (IOException e) {
        throw new RuntimeException(e);
      }
    }
  }

  private static MethodDescriptor<byte[], byte[]> method(String name, MethodType type) {
    return MethodDescriptor.<byte[], byte[]>newBuilder(new Bytes(), new Bytes())
        .setFullMethodName("test.Echo/" + name).setType(type).build();
  }

  private static void unary(byte[] message, StreamObserver<byte[]> out) {
    count.incrementAndGet();
    out.onNext(message);
    out.onCompleted();
  }

  private static void count(byte[] ignored, StreamObserver<byte[]> out) {
    out.onNext(Long.toString(count.get()).getBytes(StandardCharsets.UTF_8));
    out.onCompleted();
  }

  private static StreamObserver<byte[]> both(StreamObserver<byte[]> out) {
    return new StreamObserver<>() {
      @Override public void onNext(byte[] message) {
        count.incrementAndGet();
        out.onNext(message);
      }

      @Override public void onError(Throwable t) {}

      @Override public void onCompleted() { out.onCompleted(); }
    };
  }

  public static void main(String[] args) throws Exception {
    ServerServiceDefinition service = ServerServiceDefinition.builder("test.Echo")
        .addMethod(method("Unary", MethodType.UNARY), ServerCalls.asyncUnaryCall(Echo::unary))
        .addMethod(method("Count", MethodType.UNARY), ServerCalls.asyncUnaryCall(Echo::count))
        .addMethod(method("Both", MethodType.BIDI_STREAMING), ServerCalls.asyncBidiStreamingCall(Echo::both))
        .build();
    ServerBuilder.forPort(Integer.parseInt(args[0])).maxInboundMessageSize(64 << 20).addService(service).build().start().awaitTermination();
  }
}
