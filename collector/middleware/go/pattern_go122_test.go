//go:build !go1.23

package sojourn

const hasPattern = false
