"""A server of grpcio for tests: echo.py PORT.

Messages are bytes as they are. Unary and Both send back what they get; Count says how many
messages that were.
"""

import sys
import threading
from concurrent import futures

import grpc

SERVICE = "test.Echo"
lock = threading.Lock()
count = 0


def seen(message):
    global count
    with lock:
        count += 1
    return message


def unary(message, _):
    return seen(message)


def both(messages, _):
    for message in messages:
        yield seen(message)


def main():
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=16), options=[("grpc.max_receive_message_length", 64 << 20)])
    handlers = {
        "Unary": grpc.unary_unary_rpc_method_handler(unary),
        "Both": grpc.stream_stream_rpc_method_handler(both),
        "Count": grpc.unary_unary_rpc_method_handler(lambda _, __: str(count).encode()),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    server.add_insecure_port("127.0.0.1:" + sys.argv[1])
    server.start()
    server.wait_for_termination()


main()
