// A server of gRPC C++ for tests: echo PORT. Messages are bytes as they are. Unary and Both send
// back what they get; Count says how many messages that were.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <string>

namespace {

std::atomic<long> count{0};

// Call is a stream of one method or another: it reads, writes back, and ends when its client does.
class Call : public grpc::ServerGenericBidiReactor {
 public:
  explicit Call(const std::string& method) : counting_(method == "/test.Echo/Count") {
    if (counting_ || method == "/test.Echo/Unary" || method == "/test.Echo/Both") {
      StartRead(&message_);
    } else {
      Finish(grpc::Status(grpc::StatusCode::UNIMPLEMENTED, ""));
    }
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      Finish(grpc::Status::OK);
      return;
    }
    if (counting_) {
      grpc::Slice text(std::to_string(count.load()));
      message_ = grpc::ByteBuffer(&text, 1);
    } else {
      count++;
    }
    StartWrite(&message_);
  }

  void OnWriteDone(bool ok) override {
    if (ok) StartRead(&message_);
    else Finish(grpc::Status::CANCELLED);
  }

  void OnDone() override { delete this; }

 private:
  const bool counting_;
  grpc::ByteBuffer message_;
};

class Service : public grpc::CallbackGenericService {
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    return new Call(context->method());
  }
};

}  // namespace

int main(int, char** args) {
  Service service;
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(64 << 20);
  builder.AddListeningPort(std::string("127.0.0.1:") + args[1], grpc::InsecureServerCredentials());
  builder.RegisterCallbackGenericService(&service);
  builder.BuildAndStart()->Wait();
}
