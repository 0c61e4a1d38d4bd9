//go:build !go1.23

package sojourn

import "net/http"

// patternOf returns "": requests of Go 1.22 have no field for the pattern.
func patternOf(*http.Request) string { return "" }

func copyPattern(_, _ *http.Request) {}
