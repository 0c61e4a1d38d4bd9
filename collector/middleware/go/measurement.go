package sojourn

import (
	"context"
	"net/http"
	"time"
)

// An Observer gets the measurements of every request. Its methods are called by the goroutines of several requests at
// the same time. A panic of an observer is a warning in the log.
type Observer interface {
	// Begin is called when the service of a request starts. At this time the measurement has Start, Stamp, Reason,
	// ClockOffset and Worker. Begin returns the context for the handler, which is ctx or derived from it, and a function
	// that is called once, when the handler has returned or panicked; nil if that is of no interest.
	Begin(ctx context.Context, r *http.Request, m Measurement) (context.Context, func(Measurement))
}

// A Measurement is what is known of one request.
type Measurement struct {
	// Start is the start of the service. It has a reading of the monotonic clock.
	Start time.Time
	// Stamp is the time at which the proxy sent the request, in whole microseconds. It is zero without a valid stamp.
	Stamp time.Time
	// Reason says why there is no valid stamp.
	Reason Reason
	// ClockOffset is the option of that name.
	ClockOffset time.Duration
	// Worker is the value of X-Worker.
	Worker string

	// Route is the template of the route; "" if it is unknown.
	Route string
	// Status is the final status of the response; 0 if none was sent: the handler has panicked or hijacked the connection.
	Status int
	// ServiceTime is the time from Start to the response headers or to the hijacking, by the monotonic clock.
	ServiceTime time.Duration
	// Answered is whether ServiceTime is known.
	Answered bool
	// End is the time at which the handler returned or panicked.
	End time.Time
	// Panic is the value with which the handler panicked, if it did; also http.ErrAbortHandler.
	Panic any
}

// QueueingDelay returns the time from the stamp to the start of the service, by the wall clocks of two machines: it is
// negative if they disagree. It returns false without a valid stamp.
func (m Measurement) QueueingDelay() (time.Duration, bool) {
	if m.Stamp.IsZero() {
		return 0, false
	}
	return m.Start.Sub(m.Stamp), true
}

// CorrectedDelay returns the queueing delay less the clock offset. It returns false without a valid stamp.
func (m Measurement) CorrectedDelay() (time.Duration, bool) {
	delay, ok := m.QueueingDelay()
	return delay - m.ClockOffset, ok
}
