package sojourn

import (
	"context"
	"net/http"
	"strings"
)

// exchangeKey is the key of the current exchange in the context of a request.
type exchangeKey struct{}

// SetRoute sets the template of the route that serves the request of ctx, such as "/users/{id}". A router's own
// middleware calls it, or a handler, before the response headers are sent; see [Route] for the order of precedence.
// Without a measured request, and with an empty route, it does nothing.
func SetRoute(ctx context.Context, route string) {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok && route != "" {
		x.mu.Lock()
		x.route = route
		x.mu.Unlock()
	}
}

// MarkStarted marks the start of the work on the request of ctx: the time before is queueing delay, not service time. A
// handler that first waits for a semaphore or a pool of its own calls it after the wait. After the response headers, and
// without a measured request, it does nothing.
func MarkStarted(ctx context.Context) {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		x.mu.Lock()
		if !x.sent {
			x.measured.Start = x.m.now()
		}
		x.mu.Unlock()
	}
}

// templateOf returns the path of the pattern that http.ServeMux matched: "GET example.com/users/{id}" is "/users/{id}".
func templateOf(r *http.Request) string {
	pattern := patternOf(r)
	if slash := strings.IndexByte(pattern, '/'); slash >= 0 {
		return pattern[slash:]
	}
	return ""
}

// printable returns the route with bytes outside printable ASCII as %XX: they would break the header.
func printable(route string) string {
	const hex = "0123456789ABCDEF"
	var escaped strings.Builder
	clean := 0 // the bytes before are in escaped
	for i := 0; i < len(route); i++ {
		if c := route[i]; c < ' ' || c > '~' {
			escaped.WriteString(route[clean:i])
			escaped.Write([]byte{'%', hex[c>>4], hex[c&15]})
			clean = i + 1
		}
	}
	if clean == 0 {
		return route
	}
	escaped.WriteString(route[clean:])
	return escaped.String()
}
