package sojourn.middleware;

/** One view of a request, whatever server it comes from. */
interface RequestView {

    /** Returns the first value of a header; null if absent. */
    String header(String name);

    /** Returns whether the request has more than one value of a header that it has. */
    boolean isRepeated(String name);

    /** Returns the template of the route as the app, its framework or the option defines it; null if unknown so far. */
    String route();

    /** Returns the pattern by which the server has selected the handler; null if it matches every path. */
    String pattern();

    /** Returns the method as it was sent. */
    String method();

    /** Returns the path, percent-encoded, without the query. */
    String path();

    /** Returns {@code http} or {@code https}, as the server sees it. */
    String scheme();

    /** Returns the protocol: {@code HTTP/1.1}. */
    String protocol();

    /** Returns the name of the server, of the Host header if there is one; null if unknown. */
    String serverName();

    /** Returns the port of the server, of the Host header if there is one; 0 if unknown. */
    int serverPort();
}
