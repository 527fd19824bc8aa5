"""Runs scenario.json with grpcio: scenario.py ADDRESS CA-FILE-OR-EMPTY SCENARIO.

Prints one line a call. Messages are bytes as they are, so no protobuf is needed.
"""

import hashlib
import json
import sys
import threading

import grpc

AUTHORITY = "scenario.test"
COMPRESSION = {"gzip": grpc.Compression.Gzip, "deflate": grpc.Compression.Deflate, "": None}
METHODS = {"unary": "Unary", "client": "Client", "server": "Server", "bidi": "Bidi"}
CALL_TIMEOUT = 60


def payload(spec):
    if spec["gen"] == "text":
        unit = b"The quick brown fox jumps over the lazy dog. "
        return (unit * (spec["len"] // len(unit) + 1))[: spec["len"]]
    state, out = spec.get("seed", 0), bytearray()
    for _ in range(spec["len"]):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        out.append(state >> 24)
    return bytes(out)


def metadata_of(call):
    out = [("x-name", call["name"]), ("x-do", json.dumps(call["do"]))]
    for key, value in call.get("metadata", []):
        if isinstance(value, dict):
            value = payload(value)
            if not key.endswith("-bin"):
                value = value.decode()
        out.append((key, value))
    return out


def show(b):
    if isinstance(b, str):
        b = b.encode()
    return "%s/%d" % (hashlib.sha256(b).hexdigest()[:16], len(b)) if len(b) > 60 else repr(bytes(b))


def show_metadata(md):
    return [k + "=" + show(v) for k, v in sorted(md or [], key=lambda kv: kv[0])]


def run_unary(multi, call, options):
    """A call with one answer, as a future so that it can be cancelled."""
    future = multi(call, options)
    if "cancel_after" in call:
        threading.Timer(0.2, future.cancel).start()
    try:
        answers = [future.result()]
    except (grpc.RpcError, grpc.FutureCancelledError):
        answers = []
    return future, answers


def run_stream(start, call, options):
    stream, answers = start(call, options), []
    try:
        for answer in stream:
            answers.append(answer)
            if len(answers) == call.get("cancel_after"):
                stream.cancel()
    except grpc.RpcError:
        pass
    return stream, answers


class Client:
    def __init__(self, address, ca):
        options = [("grpc.default_authority", AUTHORITY), ("grpc.primary_user_agent", "scenario"), ("grpc.use_local_subchannel_pool", 1)]
        if ca:
            with open(ca, "rb") as f:
                credentials = grpc.ssl_channel_credentials(f.read())
            self.channel = grpc.secure_channel(address, credentials, options + [("grpc.ssl_target_name_override", AUTHORITY)])
        else:
            self.channel = grpc.insecure_channel(address, options)

    def run(self, call):
        method = call.get("method", "/cinch.test.Scenario/" + METHODS[call["kind"]])
        options = {"metadata": metadata_of(call), "compression": COMPRESSION[call.get("compression", "")]}
        options["timeout"] = call["deadline_ms"] / 1000 if "deadline_ms" in call else CALL_TIMEOUT
        send = [payload(p) for p in call["send"]]
        ch = self.channel
        if call["kind"] == "unary":
            return run_unary(lambda c, o: ch.unary_unary(method).future(send[0], **o), call, options)
        if call["kind"] == "client":
            return run_unary(lambda c, o: ch.stream_unary(method).future(iter(send), **o), call, options)
        if call["kind"] == "server":
            return run_stream(lambda c, o: ch.unary_stream(method)(send[0], **o), call, options)
        return run_stream(lambda c, o: ch.stream_stream(method)(iter(send), **o), call, options)


def line(call, done, answers):
    fields = [call["name"], done.code().name]
    if call.get("normalise") == "late" and fields[1] in ("DEADLINE_EXCEEDED", "CANCELLED"):
        fields[1] = "late"  # whoever notices first, the client or the server
    if "normalise" not in call:
        fields.append(show(done.details() or ""))
        fields.append("initial " + " ".join(show_metadata(done.initial_metadata())))
        fields.append("trailing " + " ".join(show_metadata(done.trailing_metadata())))
    return "\t".join(fields + [show(a) for a in answers])


def main():
    address, ca, path = sys.argv[1:]
    with open(path, encoding="utf-8") as f:
        calls = json.load(f)
    client = Client(address, ca)
    for call in calls:
        print(line(call, *client.run(call)), flush=True)


main()
