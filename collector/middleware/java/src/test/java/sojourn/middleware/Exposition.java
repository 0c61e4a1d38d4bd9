package sojourn.middleware;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The samples of a text that Prometheus would scrape.
 *
 * @param values by name and sorted labels
 */
record Exposition(Map<Exposition.Series, Double> values) {

    private static final Pattern SAMPLE = Pattern.compile("([\\w:]+)(?:\\{(.*)\\})? (\\S+)");
    private static final Pattern LABEL = Pattern.compile("(\\w+)=\"((?:[^\"\\\\]|\\\\.)*)\"");

    /** A name and its labels. */
    record Series(String name, Map<String, String> labels) {

        static Series of(String name, String... labels) {
            Map<String, String> sorted = new TreeMap<>();
            for (int each = 0; each < labels.length; each += 2) {
                sorted.put(labels[each], labels[each + 1]);
            }
            return new Series(name, sorted);
        }

        Series named(String other) {
            return new Series(other, labels);
        }

        Series without(String label) {
            Map<String, String> fewer = new TreeMap<>(labels);
            fewer.remove(label);
            return new Series(name, fewer);
        }
    }

    /** A histogram: its bounds as text, the cumulative counts of its buckets, and the sum. */
    record Histogram(List<String> bounds, List<Long> buckets, double sum) {}

    static Exposition parsed(String text) {
        Map<Series, Double> values = new HashMap<>();
        for (String line : text.split("\n")) {
            Matcher sample = SAMPLE.matcher(line);
            if (line.startsWith("#") || !sample.matches()) {
                continue;
            }
            Map<String, String> labels = new TreeMap<>();
            Matcher label = LABEL.matcher(sample.group(2) == null ? "" : sample.group(2));
            while (label.find()) {
                labels.put(label.group(1), label.group(2).replaceAll("\\\\([\"\\\\])", "$1"));
            }
            values.put(new Series(sample.group(1), labels), Double.valueOf(sample.group(3)));
        }
        return new Exposition(values);
    }

    /** Returns the value of a series; null if there is none. */
    Double value(String name, String... labels) {
        return values.get(Series.of(name, labels));
    }

    /** Returns all histograms, each with its buckets in ascending order. */
    Map<Series, Histogram> histograms() {
        Map<Series, Map<Double, String>> bounds = new HashMap<>();
        values.forEach((series, value) -> {
            String bound = series.labels().get("le");
            if (series.name().endsWith("_bucket") && bound != null) {
                String name = series.name().substring(0, series.name().length() - "_bucket".length());
                double seconds = bound.equals("+Inf") ? Double.POSITIVE_INFINITY : Double.parseDouble(bound);
                bounds.computeIfAbsent(series.without("le").named(name), each -> new TreeMap<>()).put(seconds, bound);
            }
        });
        Map<Series, Histogram> histograms = new HashMap<>();
        bounds.forEach((series, texts) -> {
            List<Long> counts = new ArrayList<>();
            for (String bound : texts.values()) {
                Map<String, String> labels = new TreeMap<>(series.labels());
                labels.put("le", bound);
                counts.add(values.get(new Series(series.name() + "_bucket", labels)).longValue());
            }
            double sum = values.get(series.named(series.name() + "_sum"));
            histograms.put(series, new Histogram(List.copyOf(texts.values()), counts, sum));
        });
        return histograms;
    }
}
