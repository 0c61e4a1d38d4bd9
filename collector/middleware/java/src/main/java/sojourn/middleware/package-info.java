/**
 * Answers every request with its queueing delay and service time: {@link sojourn.middleware.SojournFilter} for servlets,
 * {@link sojourn.middleware.SojournHttpFilter} for the JDK's own HTTP server.
 */
package sojourn.middleware;
