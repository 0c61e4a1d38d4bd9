// Package sojourn measures the queueing delay and the service time of every request of an HTTP server, and sends both
// in the headers of the response. The proxy in front logs the headers and removes them.
//
//	X-Queueing-Delay: 0.301512     from the proxy's stamp to the start of the handler, in seconds
//	X-Service-Time:   0.100236     from the start of the handler to its response headers, in seconds
//	X-Worker:         1234.2       the process and the place that served the request, see [Limit]
//	X-Route:          /users/{id}  the route's template, if known, see [Route] and [SetRoute]
//
// [New] returns a middleware of the usual form, func(http.Handler) http.Handler:
//
//	handler := sojourn.New(sojourn.Limit(8))(mux)
//
// # Stamps
//
// The proxy writes the time at which it sends the request into the header X-Request-Start. X-Queue-Start is read only if
// X-Request-Start is missing or blank, not if it is refused. The number of digits before the point defines the unit: 10
// are seconds, 13 milliseconds, 16 microseconds, 19 nanoseconds; the prefix t= has no meaning. Any other value is refused
// with a [Reason], and the response has no X-Queueing-Delay. The response to a request without a stamp has none of the
// headers, see [AlwaysAnswer].
//
// # Failures
//
// A failure of the measurement is one warning in the log, never an error of the request. A panic of the handler passes
// through with its value and its stack.
package sojourn

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

// The default limits of a stamp's age.
const (
	DefaultMaxAge  = time.Hour
	DefaultMaxLead = 10 * time.Second
)

// An Option configures [New].
type Option func(*middleware)

// MaxAge refuses a stamp that is older than limit as [ReasonStale]. The default is [DefaultMaxAge]. New panics
// if the limit is negative.
func MaxAge(limit time.Duration) Option {
	return func(m *middleware) { m.reader.maxAge = limit }
}

// MaxLead refuses a stamp that is further ahead of this machine's clock than limit as [ReasonFuture]. The default
// is [DefaultMaxLead]. New panics if the limit is negative.
func MaxLead(limit time.Duration) Option {
	return func(m *middleware) { m.reader.maxLead = limit }
}

// ClockOffset is the time by which this machine's clock is ahead of the proxy's; negative if it is behind. It corrects
// the delay that an [Observer] gets, never the header. The default is 0.
func ClockOffset(offset time.Duration) Option {
	return func(m *middleware) { m.clockOffset = offset }
}

// Limit serves at most n requests at once. Other requests wait for a place in the order of their arrival, and the wait
// is part of the queueing delay. X-Worker is then PID.PLACE, for example 1234.2, with places from 1 to n.
//
// A request that still waits when its context ends gets the status 503, without measurements. All handlers behind one
// middleware share its places; a second middleware with a limit uses the same numbers for its own, so that X-Worker is
// ambiguous. 0, the default, is no limit: requests overlap, and X-Worker is the process. New panics if n is negative.
func Limit(n int) Option {
	return func(m *middleware) { m.limit = n }
}

// Route sets the function that returns the template of a request's route, such as "/users/{id}", or "" if it is
// unknown. It is called when the response headers are sent, with the request as the wrapped handler got it.
//
// The first route that is not empty is used: of this function, of [SetRoute], of the pattern that [http.ServeMux]
// matched (Go 1.23 and later). If all are empty, an X-Route header that the handler has set is sent unchanged.
func Route(route func(*http.Request) string) Option {
	return func(m *middleware) { m.route = route }
}

// ServerTiming adds the header Server-Timing for a browser's developer tools: "queue;dur=301.512, app;dur=100.236" in
// milliseconds. The default is off. An unknown or negative delay is omitted; values that the handler has set remain.
func ServerTiming() Option {
	return func(m *middleware) { m.serverTiming = true }
}

// AlwaysAnswer sends the measurements in responses to requests without a stamp, too. The default is off: without a stamp
// there is no proxy that removes them before the client.
func AlwaysAnswer() Option {
	return func(m *middleware) { m.alwaysAnswer = true }
}

// Observe adds an observer of every request, for example the one of package sojourn/middleware/otel. If it is a [Counter],
// it also counts the requests in progress.
func Observe(observer Observer) Option {
	return func(m *middleware) {
		m.observers = append(m.observers, observer)
		if counter, ok := observer.(Counter); ok {
			m.counters = append(m.counters, counter)
		}
	}
}

// Logger sets the log for failures of the measurement. The default is [slog.Default], at the time of the failure.
func Logger(logger *slog.Logger) Option {
	return func(m *middleware) { m.logger = logger }
}

// middleware holds the options of New, and what all its handlers share.
type middleware struct {
	reader       stampReader
	clockOffset  time.Duration
	limit        int
	route        func(*http.Request) string
	serverTiming bool
	alwaysAnswer bool
	observers    []Observer
	counters     []Counter
	logger       *slog.Logger

	pid     string
	places  *places  // nil without a limit
	workers []string // the value of X-Worker for each place
	now     func() time.Time
	warned  sync.Map // texts of the failures that are in the log
}

// New returns a middleware that measures every request of the handler that it wraps. Its handlers can be used by several
// goroutines. A middleware inside another one measures nothing; its limit applies.
//
// New panics if an option is invalid.
func New(options ...Option) func(http.Handler) http.Handler {
	m := &middleware{
		reader: stampReader{maxAge: DefaultMaxAge, maxLead: DefaultMaxLead},
		pid:    strconv.Itoa(os.Getpid()),
		now:    time.Now,
	}
	for _, option := range options {
		option(m)
	}
	for name, limit := range map[string]time.Duration{"MaxAge": m.reader.maxAge, "MaxLead": m.reader.maxLead} {
		if limit < 0 {
			panic(fmt.Sprintf("sojourn: %s must be 0 or more, not %v", name, limit))
		}
	}
	if m.limit < 0 {
		panic(fmt.Sprintf("sojourn: Limit must be 0 (no limit) or more, not %d", m.limit))
	}
	for _, observer := range m.observers {
		if observer == nil {
			panic("sojourn: Observe needs an observer, not nil")
		}
	}
	for _, counter := range m.counters {
		if gauge, ok := counter.(*Gauge); ok && gauge == nil {
			panic("sojourn: InProgress needs a gauge, not nil")
		}
	}
	if m.limit > 0 {
		m.places = newPlaces(m.limit)
		for place := range m.limit {
			m.workers = append(m.workers, m.pid+"."+strconv.Itoa(place+1))
		}
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
	}
}

// serve takes a place for the request, if there is a limit, and measures it, unless a middleware outside does.
func (m *middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	ctx := r.Context()
	worker := m.pid
	outermost := ctx.Value(exchangeKey{}) == nil
	var present *presence
	if outermost {
		present = m.enter(ctx, r)
		if present != nil {
			defer present.leave()
		}
	}
	// A place that a middleware outside has taken for this request counts for this one, too.
	limited := m.places != nil && ctx.Value(m.places) == nil
	if limited {
		place, err := m.places.acquire(ctx)
		if err != nil {
			// The client has left, or a deadline of the app has passed: the handler does no work for it.
			http.Error(w, "no worker became free in time", http.StatusServiceUnavailable)
			return
		}
		defer m.places.release(place)
		worker = m.workers[place-1]
	}
	if outermost {
		x := &exchange{Context: ctx, m: m, present: present}
		x.measured.Worker = worker
		x.serve(w, r, next)
		return
	}
	if !limited {
		next.ServeHTTP(w, r)
		return
	}
	served := r.WithContext(context.WithValue(ctx, m.places, true))
	next.ServeHTTP(w, served)
	giveBack(r, served)
}

// warn logs a failure of the measurement; the same failure of later requests is not logged.
func (m *middleware) warn(text string, cause any) {
	if _, known := m.warned.LoadOrStore(text, true); known {
		return
	}
	logger := m.logger
	if logger == nil {
		logger = slog.Default()
	}
	logger.Warn("sojourn: "+text+"; the same failure is not logged again", "error", fmt.Sprint(cause))
}

// warnOfPanic, deferred, ends a panic of a function that the app has passed to New.
func (m *middleware) warnOfPanic(text string) {
	if value := recover(); value != nil {
		m.warn(text, value)
	}
}
