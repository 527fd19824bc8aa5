package io.github.cinchlayer;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.util.ArrayList;
import java.util.List;

/** Members of published records, with what holds where they are missing. */
final class Json {
  private final JsonObject object;

  private Json(JsonObject object) {
    this.object = object;
  }

  /** No text is an object without members. */
  static Json parse(String text) {
    return new Json(text == null || text.isEmpty() ? new JsonObject() : JsonParser.parseString(text).getAsJsonObject());
  }

  private JsonElement get(String name) {
    JsonElement element = object.get(name);
    return element == null || element.isJsonNull() ? null : element;
  }

  String text(String name, String otherwise) {
    return get(name) == null ? otherwise : get(name).getAsString();
  }

  int number(String name) {
    return get(name) == null ? 0 : get(name).getAsInt();
  }

  double share(String name, double otherwise) {
    return get(name) == null ? otherwise : get(name).getAsDouble();
  }

  boolean flag(String name) {
    return get(name) != null && get(name).getAsBoolean();
  }

  /** A dictionary's number in hexadecimal digits, or 0. */
  int dictionary(String name) {
    String digits = text(name, "");
    return digits.isEmpty() ? 0 : Integer.parseUnsignedInt(digits, 16);
  }

  Json object(String name) {
    return get(name) == null ? null : new Json(get(name).getAsJsonObject());
  }

  List<String> texts(String name) {
    List<String> all = new ArrayList<>();
    if (get(name) != null) {
      get(name).getAsJsonArray().forEach(element -> all.add(element.getAsString()));
    }
    return all;
  }

  List<Json> objects(String name) {
    List<Json> all = new ArrayList<>();
    if (get(name) != null) {
      get(name).getAsJsonArray().forEach(element -> all.add(new Json(element.getAsJsonObject())));
    }
    return all;
  }
}
