/** Spring Boot 3 and later: configures {@link sojourn.middleware.SojournFilter} by itself, with properties {@code sojourn.*}. */
package sojourn.middleware.spring;
