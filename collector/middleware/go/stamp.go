package sojourn

import (
	"net/http"
	"strings"
	"time"
)

// A Reason says why a request has no valid stamp. It is empty if the stamp is valid.
type Reason string

// The reasons.
const (
	ReasonMissing    Reason = "missing"      // neither header has a value
	ReasonList       Reason = "list"         // several values: a client can have sent one of them
	ReasonNotANumber Reason = "not_a_number" // something else than digits with an optional fraction
	ReasonUnit       Reason = "unit"         // a number of digits that no unit has
	ReasonFuture     Reason = "future"       // further ahead of the clock than MaxLead
	ReasonStale      Reason = "stale"        // older than MaxAge
)

// The headers that can carry a stamp, in canonical form: the second one is read only if the first one is missing.
var stampHeaders = [...]string{"X-Request-Start", "X-Queue-Start"}

// stampReader selects the stamp among a request's headers.
type stampReader struct {
	maxAge, maxLead time.Duration
}

// read returns the stamp in microseconds since the Unix epoch, or the reason why there is none. A stamp exactly at a
// limit is valid.
func (s stampReader) read(header http.Header, now time.Time) (int64, Reason) {
	for _, name := range stampHeaders {
		values := header[name]
		if len(values) == 0 {
			continue
		}
		if len(values) > 1 {
			return 0, ReasonList
		}
		us, reason := parseStamp(values[0])
		switch nowUS := now.UnixMicro(); {
		case reason == ReasonMissing:
			continue
		case reason != "":
			return 0, reason
		case us > nowUS+s.maxLead.Microseconds():
			return 0, ReasonFuture
		case us < nowUS-s.maxAge.Microseconds():
			return 0, ReasonStale
		}
		return us, ""
	}
	return 0, ReasonMissing
}

// parseStamp returns a value in microseconds since the Unix epoch, rounded down, or why the value is no stamp. Its age is
// not checked.
func parseStamp(value string) (int64, Reason) {
	value = strings.Trim(value, " \t")
	if value == "" {
		return 0, ReasonMissing
	}
	if strings.IndexByte(value, ',') >= 0 {
		// A proxy that appends instead of replacing joins two stamps.
		return 0, ReasonList
	}
	whole, fraction, point := strings.Cut(strings.TrimPrefix(value, "t="), ".")
	if !isDigits(whole) || point && !isDigits(fraction) {
		return 0, ReasonNotANumber
	}
	// The most digits of the fraction, and the decimal places from the unit to microseconds.
	var most, places int
	switch len(whole) {
	case 10:
		most, places = 9, 6
	case 13:
		most, places = 6, 3
	case 16:
		most, places = 0, 0
	case 19:
		most, places = 0, 0
		whole = whole[:16] // nanoseconds, cut to microseconds
	default:
		return 0, ReasonUnit
	}
	if whole[0] == '0' || len(fraction) > most {
		return 0, ReasonUnit
	}
	us := digits(0, whole)
	if len(fraction) > places {
		fraction = fraction[:places]
	}
	us = digits(us, fraction)
	for range places - len(fraction) {
		us *= 10
	}
	return us, ""
}

func isDigits(text string) bool {
	for i := 0; i < len(text); i++ {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}

// digits appends decimal digits to a number.
func digits(number int64, text string) int64 {
	for i := 0; i < len(text); i++ {
		number = number*10 + int64(text[i]-'0')
	}
	return number
}
