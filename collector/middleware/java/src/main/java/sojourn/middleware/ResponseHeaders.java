package sojourn.middleware;

import java.util.Collection;

/** The headers of a response that is not committed. */
interface ResponseHeaders {

    /** Returns all values of a header, in their order. */
    Collection<String> values(String name);

    /** Returns the content type; null if it is not set. */
    String contentType();

    /** Replaces all values of a header. */
    void set(String name, String value);

    /** Adds one more value of a header. */
    void add(String name, String value);
}
