package io.github.cinchlayer;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;

/** Seals and opens for tests in other languages: a JSON object a line, in and out. */
final class Worker {
  private Worker() {}

  public static void main(String[] args) throws IOException {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      System.out.println(answer(JsonParser.parseString(line).getAsJsonObject()));
    }
  }

  private static JsonObject answer(JsonObject asked) {
    JsonObject answer = new JsonObject();
    try {
      byte[] value = asked.get("op").getAsString().equals("seal") ? seal(asked) : open(asked);
      answer.addProperty("value", Base64.getEncoder().encodeToString(value));
    } catch (EnvelopeException e) {
      answer.addProperty("error", name(e));
    }
    return answer;
  }

  private static byte[] seal(JsonObject asked) {
    Dictionary dictionary = asked.has("dictionary") ? new Dictionary(bytes(asked.get("dictionary"))) : null;
    return Envelope.seal(bytes(asked.get("value")), asked.get("level").getAsInt(), dictionary);
  }

  private static byte[] open(JsonObject asked) {
    Map<Integer, Dictionary> dictionaries = new HashMap<>();
    for (JsonElement content : asked.has("dictionaries") ? asked.getAsJsonArray("dictionaries") : new JsonArray()) {
      Dictionary dictionary = new Dictionary(bytes(content));
      dictionaries.put(dictionary.number(), dictionary);
    }
    int maxRaw = asked.has("max_raw") ? asked.get("max_raw").getAsInt() : Envelope.DEFAULT_MAX_RAW;
    return Envelope.open(bytes(asked.get("value")), dictionaries::get, maxRaw);
  }

  private static byte[] bytes(JsonElement base64) {
    return Base64.getDecoder().decode(base64.getAsString());
  }

  private static String name(EnvelopeException e) {
    if (e instanceof EnvelopeException.DictionaryMissing) {
      return "dictionary missing";
    }
    if (e instanceof EnvelopeException.UnknownCodec) {
      return "unknown codec";
    }
    return e instanceof EnvelopeException.TooLarge ? "too large" : "damaged";
  }
}
