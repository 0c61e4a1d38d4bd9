package sojourn.middleware;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** A table that all middleware packages share. */
record Vectors(JsonObject table, List<Case> cases) {

    /** One row of the table; its name is the name of the test. */
    record Case(String name, JsonObject row) {
        @Override
        public String toString() {
            return name;
        }

        String text(String key) {
            JsonElement value = row.get(key);
            return value == null || value.isJsonNull() ? null : value.getAsString();
        }
    }

    static Vectors read(String file) {
        String folder = System.getProperty("sojourn.vectors", "../../../tests/vectors");
        try {
            JsonObject table = JsonParser.parseString(Files.readString(Path.of(folder, file))).getAsJsonObject();
            List<Case> cases = new ArrayList<>();
            for (JsonElement each : table.getAsJsonArray("cases")) {
                JsonObject row = each.getAsJsonObject();
                cases.add(new Case(row.get("name").getAsString(), row));
            }
            return new Vectors(table, cases);
        } catch (IOException error) {
            throw new IllegalStateException("-Dsojourn.vectors: no " + file + " in " + folder, error);
        }
    }

    long number(String key) {
        return table.get(key).getAsLong();
    }
}
