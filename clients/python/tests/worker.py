"""Seals and opens for tests in other languages (test/library): a JSON object a line, in and out."""

import base64
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import cinch  # noqa: E402

CLASSES = {cinch.DictionaryMissing: "dictionary missing", cinch.UnknownCodec: "unknown codec", cinch.TooLarge: "too large"}


def answer(asked: dict) -> dict:
    try:
        value = {"seal": seal, "open": open_}[asked["op"]](asked)
        return {"value": base64.b64encode(value).decode()}
    except cinch.EnvelopeError as e:
        return {"error": CLASSES.get(type(e), "damaged")}


def seal(asked: dict) -> bytes:
    content = asked.get("dictionary")
    dictionary = cinch.Dictionary(base64.b64decode(content)) if content else None
    return cinch.seal_value(base64.b64decode(asked["value"]), asked.get("level", 3), dictionary)


def open_(asked: dict) -> bytes:
    given = map(cinch.Dictionary, map(base64.b64decode, asked.get("dictionaries") or []))
    dictionaries = {d.number: d for d in given}
    return cinch.open_value(base64.b64decode(asked["value"]), dictionaries, asked.get("max_raw") or cinch.DEFAULT_MAX_RAW)


if __name__ == "__main__":
    for line in sys.stdin.buffer:
        print(json.dumps(answer(json.loads(line))), flush=True)
