//go:build !unix

package sojourn

import "time"

// cpuTime returns 0: this system has no getrusage.
func cpuTime() time.Duration { return 0 }
