package sojourn

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The headers of the response, in canonical form.
const (
	delayHeader   = "X-Queueing-Delay"
	serviceHeader = "X-Service-Time"
	workerHeader  = "X-Worker"
	routeHeader   = "X-Route"
	timingHeader  = "Server-Timing"
)

// exchange is one measured request and its response. It is also the context of the request, in which SetRoute looks for
// it: a context of its own would be one more allocation.
type exchange struct {
	context.Context
	m       *middleware
	writer  writer
	present *presence     // nil without counters
	served  *http.Request // as the handler gets it; ServeMux sets its pattern
	values  [4]string     // the values of the headers, one slice each

	// The mutex guards the fields below: an http.TimeoutHandler runs the handler in another goroutine.
	mu       sync.Mutex
	route    string // of SetRoute
	sent     bool   // the service time is over: the headers are sent, or the connection is hijacked
	measured Measurement
}

// Value returns the exchange for its key, whether its places are taken, or a value of the context outside.
func (x *exchange) Value(key any) any {
	switch key := key.(type) {
	case exchangeKey:
		return x
	case *places:
		if key == x.m.places {
			return true
		}
	}
	return x.Context.Value(key)
}

// serve measures the request and adds the headers to its response.
func (x *exchange) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	x.writer = writer{ResponseWriter: w, x: x}
	x.measured.Start = x.m.now()
	us, reason := x.m.reader.read(r.Header, x.measured.Start)
	if reason == "" {
		x.measured.Stamp = time.UnixMicro(us)
	}
	x.measured.Reason = reason
	x.measured.ClockOffset = x.m.clockOffset

	ctx, ends := x.begin(r)
	x.served = r.WithContext(ctx)
	if len(ends) > 0 {
		returned := false
		defer func() {
			var value any
			if !returned {
				value = recover()
			}
			x.end(value, ends)
			if value != nil {
				// The frames of the handler are still on the stack, which the server writes to its log.
				panic(value)
			}
		}()
		x.call(r, next)
		returned = true
		return
	}
	x.call(r, next)
}

// call serves the request, and adds the headers to a response without a body.
func (x *exchange) call(r *http.Request, next http.Handler) {
	next.ServeHTTP(x.writer.view(), x.served)
	x.writer.send(http.StatusOK)
	giveBack(r, x.served)
}

// giveBack sets on the request what the handler has set on its copy: the server deletes the files of an upload, and a
// middleware outside reads the pattern.
func giveBack(r, served *http.Request) {
	copyPattern(r, served)
	if r.MultipartForm == nil {
		r.MultipartForm = served.MultipartForm
	}
}

// stop ends the service time, and returns whether this is the first call. The measurement does not change afterwards.
func (x *exchange) stop(status int) bool {
	now := x.m.now()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.sent {
		return false
	}
	x.sent = true
	x.measured.Status = status
	x.measured.ServiceTime = now.Sub(x.measured.Start)
	x.measured.Answered = true
	return true
}

// stopped returns whether the service time is over.
func (x *exchange) stopped() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sent
}

// addHeaders sets the headers of the response, after stop.
func (x *exchange) addHeaders(header http.Header) {
	route := x.findRoute()
	delay, stamped := x.measured.QueueingDelay()
	if x.m.alwaysAnswer || x.measured.Reason != ReasonMissing {
		removeHeaders(header, route != "")
		if stamped {
			x.set(header, 0, delayHeader, decimals(delay, time.Second, 6))
		}
		x.set(header, 1, serviceHeader, decimals(x.measured.ServiceTime, time.Second, 6))
		x.set(header, 2, workerHeader, x.measured.Worker)
		if route != "" {
			x.set(header, 3, routeHeader, printable(route))
		}
	}
	if route == "" {
		route = header.Get(routeHeader)
	}
	if x.m.serverTiming {
		timing := "app;dur=" + decimals(x.measured.ServiceTime, time.Millisecond, 3)
		if stamped && delay >= 0 {
			timing = "queue;dur=" + decimals(delay, time.Millisecond, 3) + ", " + timing
		}
		header.Add(timingHeader, timing)
	}
	x.mu.Lock()
	x.measured.Route = route
	x.mu.Unlock()
}

// set sets a header without allocating its slice.
func (x *exchange) set(header http.Header, number int, name, value string) {
	x.values[number] = value
	header[name] = x.values[number : number+1 : number+1]
}

// removeHeaders deletes the headers that the middleware sets, however their names are written.
func removeHeaders(header http.Header, route bool) {
	for name := range header {
		switch len(name) {
		case len(delayHeader), len(serviceHeader), len(workerHeader), len(routeHeader):
			if strings.EqualFold(name, delayHeader) || strings.EqualFold(name, serviceHeader) ||
				strings.EqualFold(name, workerHeader) || route && strings.EqualFold(name, routeHeader) {
				delete(header, name)
			}
		}
	}
}

// decimals returns a duration in a unit, with a fixed number of decimals.
func decimals(duration, unit time.Duration, places int) string {
	var buffer [32]byte
	return string(strconv.AppendFloat(buffer[:0], float64(duration)/float64(unit), 'f', places, 64))
}

// findRoute returns the first route that is known; see Route.
func (x *exchange) findRoute() string {
	if x.m.route != nil {
		if route := x.callRoute(); route != "" {
			return route
		}
	}
	x.mu.Lock()
	route := x.route
	x.mu.Unlock()
	if route != "" {
		return route
	}
	return templateOf(x.served)
}

func (x *exchange) callRoute() (route string) {
	defer x.m.warnOfPanic("the function of the option Route panicked")
	return x.m.route(x.served)
}

// begin calls the observers, and returns the context of the handler and what is to be called at the end.
func (x *exchange) begin(r *http.Request) (context.Context, []func(Measurement)) {
	var ctx context.Context = x
	var ends []func(Measurement)
	for _, observer := range x.m.observers {
		ctx, ends = x.beginOne(observer, ctx, r, ends)
	}
	return ctx, ends
}

func (x *exchange) beginOne(
	observer Observer, ctx context.Context, r *http.Request, ends []func(Measurement),
) (_ context.Context, _ []func(Measurement)) {
	observed, after := ctx, ends
	func() {
		defer x.m.warnOfPanic("an observer panicked at the start of a request")
		c, end := observer.Begin(ctx, r, x.measured)
		if c != nil {
			observed = c
		}
		if end != nil {
			after = append(after, end)
		}
	}()
	return observed, after
}

// end gives the final measurement to the observers, the last one first.
func (x *exchange) end(value any, ends []func(Measurement)) {
	x.mu.Lock()
	x.sent = true // a handler that is still running in another goroutine changes nothing
	x.measured.End = x.m.now()
	x.measured.Panic = value
	measured := x.measured
	x.mu.Unlock()
	for i := len(ends) - 1; i >= 0; i-- {
		func() {
			defer x.m.warnOfPanic("an observer panicked at the end of a request")
			ends[i](measured)
		}()
	}
}
