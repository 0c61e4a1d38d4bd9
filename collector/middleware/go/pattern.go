//go:build go1.23

package sojourn

import "net/http"

// patternOf returns the pattern that http.ServeMux matched; "" if there is none.
func patternOf(r *http.Request) string { return r.Pattern }

// copyPattern gives the pattern to a request whose copy was served.
func copyPattern(to, from *http.Request) { to.Pattern = from.Pattern }
